// The states of a page that has nothing to show, or not quite.
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Button } from "react-aria-components";
import { failureText } from "../api/failure";
import { When } from "./When";

export function Loading({ what }: { what: string }) {
  return (
    <p className="loading" role="status">
      Asking for {what} …
    </p>
  );
}

/** `isPage`: it is all there is on the page, so that its title is the page's. */
export function Empty({
  title,
  children,
  isPage,
}: {
  title: string;
  children?: ReactNode;
  isPage?: boolean;
}) {
  const Title = isPage ? "h1" : "p";
  return (
    <div className="empty">
      <Title className="empty-title">{title}</Title>
      {children}
    </div>
  );
}

export function Problem({ title, text, onRetry }: { title: string; text: string; onRetry?: () => void }) {
  return (
    <div className="problem" role="alert">
      <p className="problem-title">{title}</p>
      <p>{text}</p>
      {onRetry && (
        <Button className="plain" onPress={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** What was read, however old; without it, why there is nothing. */
export function Read<T>({
  query,
  what,
  children,
}: {
  query: UseQueryResult<T>;
  what: string;
  children: (data: T) => ReactNode;
}) {
  if (query.data === undefined) {
    if (!query.error) return <Loading what={what} />;
    return (
      <Problem title={`No ${what}`} text={failureText(query.error)} onRetry={() => void query.refetch()} />
    );
  }
  return (
    <>
      {query.error && (
        <p className="strip warn-strip" role="status">
          As of <When time={query.dataUpdatedAt} />. {failureText(query.error)}
        </p>
      )}
      {children(query.data)}
    </>
  );
}
