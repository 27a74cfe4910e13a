/** Values as people read them. Unknown is a dash, never a zero. */

export const UNKNOWN = "–";
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value: number | null): string {
  if (value === null) return UNKNOWN;
  let unit = 0;
  let rest = Math.abs(value);
  while (rest >= 1023.95 && unit < BYTES.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || rest >= 100 || Number.isInteger(rest) ? 0 : 1;
  return `${value < 0 ? "−" : ""}${rest.toFixed(digits)} ${BYTES[unit]}`;
}

export function percent(value: number | null): string {
  return value === null ? UNKNOWN : `${Math.round(value * 100)} %`;
}

/** Three significant digits, without an exponent. */
export function figure(value: number | null): string {
  if (value === null) return UNKNOWN;
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  if (size >= 3) return Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
  return String(Number(value.toFixed(Math.min(6, Math.max(0, 2 - size)))));
}

export function withUnit(value: number | null, unit: string): string {
  return value === null ? UNKNOWN : `${figure(value)} ${unit}`.trim();
}

export function cores(milli: number | null): string {
  return milli === null ? UNKNOWN : figure(milli / 1000);
}

/** A latency: 240 µs, 8.1 ms, 2.4 s. */
export function latency(seconds: number | null): string {
  if (seconds === null) return UNKNOWN;
  if (seconds < 0.001) return withUnit(seconds * 1e6, "µs");
  if (seconds < 1) return withUnit(seconds * 1000, "ms");
  return withUnit(seconds, "s");
}

/** An age in its two largest parts: 12s, 4m 10s, 3h 5m, 6d 4h. */
export function age(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return two(whole, 60, "m", 1, "s");
  if (whole < 86_400) return two(whole, 3600, "h", 60, "m");
  return two(whole, 86_400, "d", 3600, "h");
}

function two(whole: number, large: number, first: string, small: number, second: string): string {
  const rest = Math.floor((whole % large) / small);
  return `${Math.floor(whole / large)}${first}${rest > 0 ? ` ${rest}${second}` : ""}`;
}

/** The time of day, of the viewer's zone, from the server's seconds. */
export function clockTime(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

export function dateTime(seconds: number): string {
  return new Date(seconds * 1000).toLocaleString("sv-SE");
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en").replaceAll(",", "\u202f")} ${count === 1 ? one : many}`;
}
