import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Input, Label, SearchField } from "react-aria-components";
import { Link } from "react-router";
import { users } from "../api/queries";
import type { Controller_UserSummary } from "../gen/iris_fed/rpc/gen/cluster/controller_pb";
import { Empty, Read } from "../parts/Notices";
import { STATE_GROUPS, type StateGroup } from "../parts/states";
import { useTitle } from "../parts/useTitle";
import { plural } from "../text/format";

const REFRESH_MS = 15_000;
const SHOWN = 200;

export function UsersPage() {
  useTitle("Users");
  const query = useQuery({ ...users, refetchInterval: REFRESH_MS });
  const [search, setSearch] = useState("");
  return (
    <>
      <h1>Users</h1>
      <Read query={query} what="users">
        {(known) =>
          known.length === 0 ? (
            <Empty title="Nobody has submitted a job yet" />
          ) : (
            <>
              <search className="filters">
                <SearchField className="field search" value={search} onChange={setSearch}>
                  <Label className="unseen">Search users</Label>
                  <Input type="search" placeholder="Search users" />
                </SearchField>
              </search>
              <Users users={known} search={search} />
            </>
          )
        }
      </Read>
    </>
  );
}

function Users({ users, search }: { users: readonly Controller_UserSummary[]; search: string }) {
  const found = useMemo(() => {
    const fitting = users.filter((user) => (user.user ?? "").includes(search.trim()));
    return fitting.sort((a, b) => active(b) - active(a) || (a.user ?? "").localeCompare(b.user ?? ""));
  }, [users, search]);
  if (found.length === 0) return <Empty title="No user fits" />;
  return (
    <>
      <table className="users" aria-label="Users">
        <thead>
          <tr>
            <th scope="col">User</th>
            <th scope="col">Role</th>
            {Object.entries(STATE_GROUPS).map(([group, { label }]) => (
              <th scope="col" key={group} className="num">
                {label}
              </th>
            ))}
            <th scope="col" className="num">
              Tasks running
            </th>
            <th scope="col" className="num">
              Tasks in all
            </th>
          </tr>
        </thead>
        <tbody>
          {found.slice(0, SHOWN).map((user) => (
            <User key={user.user} user={user} />
          ))}
        </tbody>
      </table>
      {found.length > SHOWN && (
        <p className="muted">{plural(found.length - SHOWN, "more user")}; search to find them.</p>
      )}
    </>
  );
}

function User({ user }: { user: Controller_UserSummary }) {
  const name = user.user ?? "";
  const tasks = user.taskStateCounts;
  return (
    <tr>
      <th scope="row">
        <Link to={`/jobs?${new URLSearchParams({ user: name })}`}>{name}</Link>
      </th>
      <td data-label="Role">{user.role || <span className="muted">–</span>}</td>
      {(Object.keys(STATE_GROUPS) as StateGroup[]).map((group) => (
        <td key={group} className="num" data-label={STATE_GROUPS[group].label}>
          <Count value={inGroup(user, group)} />
        </td>
      ))}
      <td className="num" data-label="Tasks running">
        <Count value={tasks.RUNNING ?? 0} />
      </td>
      <td className="num" data-label="Tasks in all">
        <Count value={Object.values(tasks).reduce((sum, count) => sum + count, 0)} />
      </td>
    </tr>
  );
}

function Count({ value }: { value: number }) {
  return value === 0 ? <span className="muted">0</span> : value.toLocaleString("en");
}

function inGroup(user: Controller_UserSummary, group: StateGroup): number {
  const states = STATE_GROUPS[group].states.split(",");
  return states.reduce((sum, state) => sum + (user.jobStateCounts[state] ?? 0), 0);
}

function active(user: Controller_UserSummary): number {
  return inGroup(user, "running") + inGroup(user, "waiting");
}
