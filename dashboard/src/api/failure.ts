import { Code, ConnectError } from "@connectrpc/connect";

/** One sentence for a person on why a call failed. */
export function failureText(error: unknown): string {
  const failure = ConnectError.from(error);
  switch (failure.code) {
    case Code.Unauthenticated:
      return "You are not signed in any more. Reload the page to sign in.";
    case Code.DeadlineExceeded:
      return "The controller took too long to answer.";
    case Code.Unknown:
    case Code.Unavailable:
      return failure.rawMessage
        ? `The controller cannot be reached: ${failure.rawMessage}`
        : "The controller cannot be reached.";
    default:
      return failure.rawMessage || "The controller gave no reason.";
  }
}

export function hasCode(error: unknown, ...codes: Code[]): boolean {
  return error instanceof ConnectError && codes.includes(error.code);
}

/** Whether asking again may help. */
export function isPassing(error: unknown): boolean {
  return hasCode(
    error,
    Code.Unknown,
    Code.Unavailable,
    Code.DeadlineExceeded,
    Code.ResourceExhausted,
    Code.Aborted,
  );
}
