import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { clusterInfo } from "../api/queries";

export function useTitle(title: string): void {
  const here = useQuery(clusterInfo).data?.cluster;
  useEffect(() => {
    document.title = here ? `${title} · ${here}` : title;
  }, [title, here]);
}
