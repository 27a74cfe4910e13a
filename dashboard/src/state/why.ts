/** The sentences in which the server says why a workload waits, cut to what is not on the screen already. Pure. */
import type { Why, WorkloadRow } from "../api/types";

export interface WhyGroup { shape: string; example: string; count: number }

/** "0 of 800 accelerators can take NAME: " and "NAME cannot be placed: " say nothing that the row does not. */
const BEGIN = /^(?:0 of \d+ \w+ can take \S+|\S+ cannot be placed): (?=.)/;
const SMALLEST = /; smallest change that would fit: .*$/;

/** Return the line without its beginning and without the change, which have places of their own. */
export function brief(why: string): string {
  return why.replace(BEGIN, "").replace(SMALLEST, "");
}

/** Return the first of a line's reasons: it is the one that most nodes have. */
export function mainReason(why: string): string {
  const [first = ""] = brief(why).split(/; |, (?=\d+ )/);
  return first.replace(/^\d+ (?:are |is )?(?=\D)/, "");
}

/** Return waiting workloads by their main reason, the most frequent first; figures make no difference. */
export function groupWhy(rows: readonly WorkloadRow[]): WhyGroup[] {
  const groups = new Map<string, WhyGroup>();
  for (const { why } of rows) {
    const shape = shapeOf(why);
    const group = groups.get(shape);
    if (group) group.count += 1;
    else groups.set(shape, { shape, example: mainReason(why), count: 1 });
  }
  return [...groups.values()].sort((a, b) => b.count - a.count || (a.shape < b.shape ? -1 : 1));
}

/** Return a line's main reason without its figures. */
export function shapeOf(why: string): string {
  return mainReason(why).toLowerCase().replace(/\d[\d.]*/g, "#");
}

/** Return what the answer says beyond its reasons and changes, which stand below it. */
export function headline(why: Why): string {
  const text = why.summary.replace(SMALLEST, "");
  const known = why.reasons.filter(({ count }) => count > 0).map(({ count, text: reason }) => `${count} ${reason}`);
  const list = `: ${known.join(", ")}`;
  return known.length > 0 && text.endsWith(list) ? `${text.slice(0, -list.length)}.` : text;
}

/** Return what the counts of the reasons count: accelerators or nodes. */
export function countedOf(why: Why): string {
  return /\b0 of \d+ (\w+) can take/.exec(why.summary)?.[1] ?? "places";
}
