import { type FormEvent, useState } from "react";
import { Button, FieldError, Form, Input, Label, TextField } from "react-aria-components";
import { signIn } from "../api/session";

/** `refusal`: why a token that came with the address was not taken. */
export function SignInPage({ refusal, onSignedIn }: { refusal: string; onSignedIn: () => void }) {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState(refusal);
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn(token.trim());
      onSignedIn();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      setBusy(false);
    }
  };
  return (
    <main className="lone">
      <Form className="sign-in" onSubmit={(event) => void submit(event)}>
        <h1>Sign in</h1>
        <p>
          This controller wants to know who asks. Where the <code>iris-fed</code> command is set up,{" "}
          <code>iris-fed dashboard</code> opens this page signed in; <code>iris-fed token create</code> makes
          a token to paste here.
        </p>
        <TextField
          value={token}
          onChange={setToken}
          isInvalid={problem !== ""}
          validationBehavior="aria"
          type="password"
          autoComplete="off"
          className="field"
        >
          <Label>Token</Label>
          <Input maxLength={8192} />
          <FieldError>{problem}</FieldError>
        </TextField>
        <Button type="submit" className="primary" isDisabled={busy || token.trim() === ""}>
          {busy ? "Signing in …" : "Sign in"}
        </Button>
      </Form>
    </main>
  );
}
