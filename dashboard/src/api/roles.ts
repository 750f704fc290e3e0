// What a role may do here. The controller decides; this only keeps buttons off the page that it would refuse.

export interface Person {
  user: string;
  role: string;
  displayName: string;
}

export function mayCancel(person: Person, jobUser: string): boolean {
  return person.role === "admin" || (person.role === "user" && person.user !== "" && person.user === jobUser);
}
