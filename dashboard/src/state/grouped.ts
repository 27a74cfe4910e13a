/** Waiting workloads by their reason: lines that differ only in figures and names of objects are one reason. */
import type { WorkloadRow } from "../api/types";

export interface WhyGroup { shape: string; example: string; count: number }

/** Return the line without its figures. */
export function shapeOf(why: string): string {
  return why.toLowerCase().replace(/\d[\d.,]*\s?(?:[kmgtp]i?b?|ms|s|%)?(?![a-z])/g, "#").trim();
}

/** Return the reasons, the most frequent first. */
export function groupWhy(rows: readonly WorkloadRow[]): WhyGroup[] {
  const groups = new Map<string, WhyGroup>();
  for (const row of rows) {
    const shape = shapeOf(row.why);
    const group = groups.get(shape);
    if (group) group.count += 1;
    else groups.set(shape, { shape, example: row.why, count: 1 });
  }
  return [...groups.values()].sort((a, b) => b.count - a.count || (a.shape < b.shape ? -1 : 1));
}
