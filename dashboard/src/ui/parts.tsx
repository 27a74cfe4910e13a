/** Small parts that every panel is made of. */
import type { ComponentChildren } from "preact";
import { age, bytes, dateTime, percent, UNKNOWN } from "../state/format";
import { useNow } from "./context";

type Tone = "good" | "busy" | "warn" | "bad" | "quiet";

/** Shape and word carry a state; colour only repeats it. */
const TONES: Record<Tone, string> = { good: "●", busy: "◐", warn: "▲", bad: "■", quiet: "○" };

const STATES: Record<string, Tone> = {
  ready: "good", healthy: "good", running: "good", ok: "good", high: "good", usable: "good", synced: "good", done: "good",
  starting: "busy", progressing: "busy", pending: "busy", moving: "busy", medium: "busy", joining: "busy",
  waiting: "warn", cordoned: "warn", present: "warn", old: "warn", degraded: "warn", low: "warn", bound: "warn",
  "not-ready": "bad", failed: "bad", unhealthy: "bad", missing: "bad", lost: "bad",
};

export function State({ state, title }: { state: string; title?: string }) {
  const tone = STATES[state.toLowerCase()] ?? "quiet";
  return (
    <span class={`state ${tone}`} title={title}>
      <span aria-hidden="true">{TONES[tone]}</span> {state}
    </span>
  );
}

export function Age({ since }: { since: number | null }) {
  const now = useNow();
  return since === null ? <>{UNKNOWN}</> : <time title={dateTime(since)}>{age(now - since)}</time>;
}

/** A share of one as a bar with its figure. */
export function Meter({ value, text, label, full = false }: { value: number | null; text?: string; label: string; full?: boolean }) {
  if (value === null) return <span class="unknown" title={`${label}: unknown`}>{UNKNOWN}</span>;
  const share = Math.max(0, Math.min(1, value));
  return (
    <span class="meter" title={`${label}: ${text ?? percent(value)}`}>
      <span class="track" aria-hidden="true">
        <span class={`fill ${full ? "full" : ""}`} style={{ width: `${share * 100}%` }} />
      </span>
      <span class="value">{text ?? percent(value)}</span>
    </span>
  );
}

/** Used of all, as a bar. */
export function Memory({ used, all, label }: { used: number | null; all: number | null; label: string }) {
  if (used === null) return <span class="unknown" title={`${label}: unknown`}>{UNKNOWN} / {bytes(all)}</span>;
  const text = `${bytes(used)} / ${bytes(all)}`;
  return <Meter label={label} value={all ? used / all : null} text={text} full={all !== null && used > 0.95 * all} />;
}

/** Names and values of one thing. */
export function Facts({ facts }: { facts: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A section with a heading of the third level. */
export function Part({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="part">
      <h3>{title}</h3>
      {children}
    </section>
  );
}
