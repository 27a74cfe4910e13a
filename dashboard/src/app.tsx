/** The page: asks for a token if the server wants one, then shows one panel at a time. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiError, Client } from "./api/client";
import { keepToken, takeToken } from "./session";
import { Live } from "./state/live";
import { parseRoute, type Route } from "./state/route";
import { Announcer } from "./ui/announce";
import { LiveContext } from "./ui/context";
import { Gate } from "./ui/gate";
import { Shell } from "./ui/shell";

type Phase = { name: "starting"; problem: string } | { name: "asking"; problem: string } | { name: "open" };

export function App({ token: first }: { token: string | null }) {
  // An entry, so that the same token given again is another try.
  const [entry, setEntry] = useState({ token: first });
  const [phase, setPhase] = useState<Phase>({ name: "starting", problem: "" });
  const live = useMemo(() => new Live(new Client(entry.token)), [entry]);
  useEffect(() => start(live, entry.token, setPhase), [live]);
  const enter = (next: string) => {
    keepToken(next);
    setPhase({ name: "starting", problem: "" });
    setEntry({ token: next });
  };
  if (phase.name === "asking") return <Gate problem={phase.problem} onToken={enter} />;
  if (phase.name === "starting") return <main class="gate"><p role="status">{phase.problem || "Connecting"}</p></main>;
  return (
    <LiveContext.Provider value={live}>
      <Announcer><Routed onToken={enter} /></Announcer>
    </LiveContext.Provider>
  );
}

/** Ask the server until it answers; stop when the component goes. */
function start(live: Live, token: string | null, setPhase: (phase: Phase) => void): () => void {
  let timer = 0;
  let gone = false;
  const attempt = async () => {
    try {
      await live.start();
      if (!gone) setPhase({ name: "open" });
    } catch (error) {
      if (gone) return;
      if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
        setPhase({ name: "asking", problem: token === null ? "" : error.fault.what });
        return;
      }
      setPhase({ name: "starting", problem: `Not connected: ${String(error instanceof ApiError ? error.fault.what : error)}. Trying again.` });
      timer = setTimeout(() => void attempt(), 1500) as unknown as number;
    }
  };
  const hurry = () => live.hurry();
  addEventListener("online", hurry);
  const forget = followSight(live);
  void attempt();
  return () => {
    removeEventListener("online", hurry);
    forget();
    gone = true;
    clearTimeout(timer);
    live.stop();
  };
}

const UNSEEN = 20_000;

/** A tab that is not looked at for a while leaves its connection to others. */
function followSight(live: Live): () => void {
  let timer = 0;
  const listen = () => {
    clearTimeout(timer);
    if (!document.hidden) live.look(true);
    else timer = setTimeout(() => live.look(false), UNSEEN) as unknown as number;
  };
  document.addEventListener("visibilitychange", listen);
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", listen);
  };
}

function Routed({ onToken }: { onToken(token: string): void }) {
  const [route, setRoute] = useState<Route>(parseRoute(location.hash));
  useEffect(() => {
    const listen = () => {
      const token = location.hash.startsWith("#token=") ? takeToken() : null;
      if (token !== null) onToken(token);
      setRoute((old) => same(old, parseRoute(location.hash)));
    };
    addEventListener("hashchange", listen);
    listen();
    return () => removeEventListener("hashchange", listen);
  }, []);
  return <Shell route={route} />;
}

function same(old: Route, next: Route): Route {
  return old.panel === next.panel && old.key === next.key ? old : next;
}
