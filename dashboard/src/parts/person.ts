import { createContext, useContext } from "react";
import type { Person } from "../api/roles";

export const PersonContext = createContext<Person>({ user: "", role: "", displayName: "" });

export function usePerson(): Person {
  return useContext(PersonContext);
}
