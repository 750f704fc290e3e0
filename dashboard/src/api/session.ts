// Signing in with a token. The token goes to the controller at once, which answers with a cookie that
// scripts cannot read; it is kept nowhere else.
import { basePath } from "./clients";

const SIGNED_IN = "iris-fed.signed-in-here";
const TIMEOUT_MS = 15_000;
const MAX_ANSWER_CHARS = 300;

/** The token of `#token=...`, taken out of the address bar and the history; "" when there is none. */
export function takeTokenFromAddress(): string {
  const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
  if (token) history.replaceState(history.state, "", location.pathname + location.search);
  return token;
}

/** Throws an Error whose message is for the person who signs in. */
export async function signIn(token: string): Promise<void> {
  const answer = await session("POST", JSON.stringify({ token }));
  if (!answer.ok) throw new Error(await refusal(answer));
  localStorage.setItem(SIGNED_IN, "1");
}

export async function signOut(): Promise<void> {
  const answer = await session("DELETE");
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
  localStorage.removeItem(SIGNED_IN);
}

/** Whether the cookie is this page's doing; otherwise somebody else says who asks, and cannot be signed out here. */
export function isSignedInHere(): boolean {
  return localStorage.getItem(SIGNED_IN) !== null;
}

function session(method: string, body?: string): Promise<Response> {
  return fetch(`${basePath}session`, {
    method,
    ...(body === undefined ? {} : { body, headers: { "content-type": "application/json" } }),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
}

async function refusal(answer: Response): Promise<string> {
  const told: unknown = await answer.json().catch(() => null);
  const text = told !== null && typeof told === "object" && "message" in told ? String(told.message) : "";
  return text.slice(0, MAX_ANSWER_CHARS) || `The controller refused to sign you in (HTTP ${answer.status}).`;
}
