import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import {
  Button,
  Input,
  Label,
  SearchField,
  TextField,
  ToggleButton,
  ToggleButtonGroup,
} from "react-aria-components";
import { backends, clusterInfo, peers } from "../api/queries";
import { isStateGroup, STATE_GROUPS } from "../parts/states";
import { type Filters, ORDERS, type Order } from "./jobQuery";

const TYPING_MS = 250;

interface Props {
  filters: Filters;
  onChange: (part: Partial<Filters>, replace?: boolean) => void;
}

export function JobFilters({ filters, onChange }: Props) {
  const [search, setSearch] = useTyped(filters.search, (text) => onChange({ search: text }, true));
  const [user, setUser] = useTyped(filters.user, (text) => onChange({ user: text }, true));
  return (
    <search className="filters" aria-label="Filter jobs">
      <SearchField className="field search" value={search} onChange={setSearch}>
        <Label className="unseen">Search jobs by name</Label>
        <Input type="search" placeholder="Search by name" maxLength={128} />
        {search && <Button className="clear">×</Button>}
      </SearchField>
      <ToggleButtonGroup
        className="chips"
        aria-label="State"
        selectionMode="multiple"
        selectedKeys={filters.states}
        onSelectionChange={(keys) => onChange({ states: [...keys].map(String).filter(isStateGroup) })}
      >
        {Object.entries(STATE_GROUPS).map(([group, { label }]) => (
          <ToggleButton key={group} id={group} className="chip">
            {label}
          </ToggleButton>
        ))}
      </ToggleButtonGroup>
      <TextField className="field user" value={user} onChange={setUser}>
        <Label className="unseen">User</Label>
        <Input placeholder="User" maxLength={128} />
      </TextField>
      <Choices filters={filters} onChange={onChange} />
    </search>
  );
}

function Choices({ filters, onChange }: Props) {
  const here = useQuery(clusterInfo).data?.cluster ?? "here";
  const others = useQuery(peers).data ?? [];
  const own = useQuery(backends).data?.backends ?? [];
  const names = [...own, ...others.flatMap((peer) => peer.backends)].map(
    (backend) => backend.backendId ?? "",
  );
  return (
    <>
      <Choice label="Cluster" value={filters.cluster} onChange={(cluster) => onChange({ cluster })}>
        <option value="">Any cluster</option>
        <option value="local">{here} (here)</option>
        {withChosen(
          others.map((peer) => peer.peerId ?? ""),
          filters.cluster === "local" ? "" : filters.cluster,
        )}
      </Choice>
      <Choice label="Backend" value={filters.backend} onChange={(backend) => onChange({ backend })}>
        <option value="">Any backend</option>
        {withChosen(names, filters.backend)}
      </Choice>
      <Choice label="Order" value={filters.order} onChange={(order) => onChange({ order: order as Order })}>
        {Object.entries(ORDERS).map(([order, { label }]) => (
          <option key={order} value={order}>
            {label}
          </option>
        ))}
      </Choice>
      <ToggleButton
        className="chip"
        isSelected={filters.children}
        onChange={(children) => onChange({ children })}
      >
        Child jobs
      </ToggleButton>
    </>
  );
}

/** One option a name; what the address asks for is among them though nobody has heard of it. */
function withChosen(names: string[], chosen: string): ReactNode {
  return [...new Set([...names, chosen])]
    .filter(Boolean)
    .sort()
    .map((name) => (
      <option key={name} value={name}>
        {name}
      </option>
    ));
}

export function Choice({
  label,
  value,
  onChange,
  children,
}: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  children: ReactNode;
}) {
  return (
    <select
      className="choice"
      aria-label={label}
      value={value}
      onChange={(event) => onChange(event.target.value)}
    >
      {children}
    </select>
  );
}

/** Text that is told a little after the last key; it follows the address when that changes by itself. */
function useTyped(told: string, tell: (text: string) => void): [string, (text: string) => void] {
  const [typed, setTyped] = useState(told);
  useEffect(() => setTyped(told), [told]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only typing starts the wait
  useEffect(() => {
    if (typed === told) return;
    const timer = setTimeout(() => tell(typed.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return [typed, setTyped];
}
