/** Asks for the token. */
import { useState } from "preact/hooks";

export function Gate({ problem, onToken }: { problem: string; onToken(token: string): void }) {
  const [token, setToken] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    if (token.trim() !== "") onToken(token.trim());
  };
  return (
    <main class="gate">
      <form onSubmit={submit}>
        <h1>fairlead</h1>
        <label for="token">Token</label>
        <input
          id="token" type="password" value={token} autocomplete="off" autofocus aria-describedby="token-help"
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        {problem !== "" && <p class="problem" role="alert">{problem}</p>}
        <button type="submit" class="action">Open</button>
        <p id="token-help" class="quiet">
          <code>fairlead dashboard</code> prints an address that holds it. For a cluster, a service account's:{" "}
          <code>kubectl create token NAME</code>. It stays in this tab and travels in a header only.
        </p>
      </form>
    </main>
  );
}
