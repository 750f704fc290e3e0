import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Button } from "react-aria-components";
import { NavLink, Outlet, ScrollRestoration, useHref, useLocation } from "react-router";
import type { LiveState } from "../api/live";
import { clusterInfo, peers } from "../api/queries";
import type { Person } from "../api/roles";
import { isSignedInHere, signOut } from "../api/session";
import { useLive } from "../api/useLive";
import { PersonContext } from "./person";
import { useSearchKey } from "./useSearchKey";
import { When } from "./When";

export function Shell({ person }: { person: Person }) {
  const live = useLive();
  const info = useQuery(clusterInfo).data;
  // In full, since below a <base> a bare "#content" is a part of another page.
  const content = useHref({ ...useLocation(), hash: "content" });
  useSearchKey();
  return (
    <PersonContext value={person}>
      <a className="skip" href={content}>
        Skip to the content
      </a>
      <header className="top">
        <NavLink to="/" className="brand" aria-label={`${info?.cluster ?? "This cluster"}: all jobs`}>
          <Mark />
          <span className="brand-name">{info?.cluster ?? "…"}</span>
        </NavLink>
        <Places />
        <div className="top-right">
          <Liveness state={live} />
          <Who person={person} />
        </div>
      </header>
      {!live.live && <NotLive since={live.since} />}
      <ScrollRestoration />
      <main id="content" tabIndex={-1}>
        <Outlet />
      </main>
      <footer className="bottom">
        iris-fed {info?.version} · <kbd>/</kbd> searches
        {info && (
          <>
            {" "}
            · controller started <When time={Number(info.startedMs)} />
          </>
        )}
      </footer>
    </PersonContext>
  );
}

function Places() {
  const lost = useQuery(peers).data?.filter((peer) => !peer.reachable).length ?? 0;
  return (
    <nav aria-label="Pages">
      <NavLink to="/jobs">Jobs</NavLink>
      <NavLink to="/peers">
        Peers
        {lost > 0 && (
          <span className="count-bad">
            {lost}
            <span className="unseen"> unreachable</span>
          </span>
        )}
      </NavLink>
      <NavLink to="/backends">Backends</NavLink>
      <NavLink to="/users">Users</NavLink>
    </nav>
  );
}

function Liveness({ state }: { state: LiveState }) {
  return (
    <span
      className={state.live ? "live" : "live not-live"}
      title={state.live ? "Changes appear by themselves" : undefined}
    >
      {state.live ? "Live" : "Not live"}
    </span>
  );
}

function NotLive({ since }: { since: number }) {
  return (
    <p className="strip warn-strip" role="status">
      Not live since <When time={since} />: the controller cannot be asked for news. What is shown may be
      older; it is tried again by itself. If this lasts, reload the page: a sign-in may have run out.
    </p>
  );
}

function Who({ person }: { person: Person }) {
  const client = useQueryClient();
  const [problem, setProblem] = useState("");
  const leave = async () => {
    try {
      await signOut();
    } catch {
      setProblem("The controller does not answer: you are still signed in.");
      return;
    }
    client.clear();
    location.reload();
  };
  return (
    <span className="who">
      <span className="who-name" title={person.displayName}>
        {person.user || person.displayName}
      </span>
      <span className="role">{person.role}</span>
      {problem && <span role="alert">{problem}</span>}
      {isSignedInHere() && (
        <Button className="quiet" onPress={() => void leave()}>
          Sign out
        </Button>
      )}
    </span>
  );
}

function Mark() {
  return (
    <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true" className="mark">
      <circle cx="16" cy="16" r="5" />
      <path d="M16 11V3M20.4 18.6l7 4M11.6 18.6l-7 4" />
    </svg>
  );
}
