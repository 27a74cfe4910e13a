/** Whether what is shown is current. */
import { age } from "../state/format";
import { useNow, useSelect } from "./context";

export function LiveState() {
  const connection = useSelect((live) => live.connection);
  const kind = useSelect((live) => live.about?.source.kind);
  const now = useNow();
  if (connection.state === "live") {
    return <span class="live good"><span aria-hidden="true">●</span> {kind === "snapshot" ? "recorded" : "live"}</span>;
  }
  if (connection.state === "connecting") return <span class="live quiet"><span aria-hidden="true">○</span> connecting</span>;
  if (connection.state === "refused") return <span class="live bad"><span aria-hidden="true">■</span> refused</span>;
  return <span class="live bad"><span aria-hidden="true">■</span> lost {age(now - connection.since)}</span>;
}
