/** Predicted latencies on one logarithmic axis. Pure. */
import type { ModelDevice } from "../api/types";

export interface Axis { low: number; high: number; ticks: number[] }

/** Return an axis from power of ten to power of ten that holds every value; null where all are unknown. */
export function axisOf(rows: readonly ModelDevice[]): Axis | null {
  const values = rows.flatMap((row) => [row.low_seconds, row.seconds, row.p90_seconds])
    .filter((value): value is number => value !== null && value > 0);
  if (values.length === 0) return null;
  const low = Math.floor(Math.log10(Math.min(...values)) + 1e-9);
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values)) - 1e-9));
  const ticks = Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index));
  return { low, high, ticks };
}

/** Return where a latency stands on the axis, 0 to 1. */
export function position(axis: Axis, seconds: number): number {
  const place = (Math.log10(seconds) - axis.low) / (axis.high - axis.low);
  return Math.max(0, Math.min(1, place));
}
