// Nobody gets further without being known to the controller.
import { Code } from "@connectrpc/connect";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { failureText, hasCode } from "../api/failure";
import { whoAmI } from "../api/queries";
import { signIn, takeTokenFromAddress } from "../api/session";
import { SignInPage } from "../pages/SignInPage";
import { Loading, Problem } from "./Notices";
import { Shell } from "./Shell";

let givenToken = takeTokenFromAddress();

export function Door() {
  const client = useQueryClient();
  const [refusal, setRefusal] = useState("");
  const [entering, setEntering] = useState(givenToken !== "");
  useEffect(() => {
    if (!entering) return;
    signIn(givenToken)
      .then(() => client.resetQueries())
      .catch((error: Error) => setRefusal(error.message))
      .finally(() => setEntering(false));
  }, [entering, client]);
  useEffect(() => {
    // Pasted into a page that is open: only the part behind the # changes, and nothing is loaded.
    const taken = () => {
      givenToken = takeTokenFromAddress();
      if (givenToken) setEntering(true);
    };
    addEventListener("hashchange", taken);
    return () => removeEventListener("hashchange", taken);
  }, []);
  const me = useQuery({ ...whoAmI, enabled: !entering });

  if (me.data) return <Shell person={me.data} />;
  if (hasCode(me.error, Code.Unauthenticated)) {
    return <SignInPage refusal={refusal} onSignedIn={() => client.resetQueries()} />;
  }
  if (me.error) {
    return (
      <main className="lone">
        <Problem
          title="The controller does not answer"
          text={failureText(me.error)}
          onRetry={() => me.refetch()}
        />
      </main>
    );
  }
  return (
    <main className="lone">
      <Loading what="the controller" />
    </main>
  );
}
