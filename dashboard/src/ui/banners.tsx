/** What is stale and since when. A banner goes by itself when its source is back. */
import { clockTime } from "../state/format";
import { useNow, useSelect, useLive } from "./context";
import { Age } from "./parts";

export function Banners() {
  const live = useLive();
  const connection = useSelect((from) => from.connection);
  const blind = useSelect((from) => from.about?.viewer.namespaces.length === 0);
  const sources = useSelect((from) => [...from.stale.values()].map((stale) => `${stale.source}\0${stale.since}\0${stale.reason}`).join("\n"));
  return (
    <div class="banners" role="status" aria-live="polite">
      {connection.state === "lost" && (
        <p class="banner bad">
          The server is not reached since {clockTime(connection.since)} ({connection.reason}). What is shown is of that
          time. <Countdown next={connection.next} />
        </p>
      )}
      {connection.state === "refused" && (
        <p class="banner bad">
          The server refuses this token: {connection.reason}. <a href="/">Open the page again</a> with another one.
        </p>
      )}
      {blind && <p class="banner warn">This token may list the pods of no namespace: workloads are not shown.</p>}
      {sources !== "" && [...live.stale.values()].map((stale) => (
        <p class="banner warn" key={stale.source}>
          {stale.source} is stale for <Age since={stale.since} />: {stale.reason}
        </p>
      ))}
    </div>
  );
}

function Countdown({ next }: { next: number }) {
  const left = Math.ceil(next - useNow());
  return <span aria-hidden="true">{left > 0 ? `Next try in ${left} s.` : "Trying now."}</span>;
}
