import { Link, useRouteError } from "react-router";
import { Empty, Problem } from "../parts/Notices";
import { useTitle } from "../parts/useTitle";

export function NoSuchPage() {
  useTitle("No such page");
  return (
    <Empty isPage title="There is no such page">
      <p>
        <Link to="/jobs">All jobs</Link>
      </p>
    </Empty>
  );
}

export function CrashPage() {
  const error = useRouteError();
  return (
    <main className="lone">
      <Problem
        title="This page broke"
        text={error instanceof Error ? error.message : String(error)}
        onRetry={() => location.reload()}
      />
    </main>
  );
}
