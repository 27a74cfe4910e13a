/** Orders of lists: unknown last in both directions, equal rows in key order. */

export type SortValue = string | number | null;
export interface Order { column: string; descending: boolean }

/** Numbers in names count as numbers: node-2 is before node-10. */
const collator = new Intl.Collator("en", { numeric: true });

export function compareValues(a: SortValue, b: SortValue, descending: boolean): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  const order = typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b));
  return descending ? -order : order;
}

/** Return the rows in order; each row's value is read once. */
export function sortRows<R>(rows: readonly R[], value: (row: R) => SortValue, descending: boolean): R[] {
  const keyed = rows.map((row, index) => ({ row, index, value: value(row) }));
  keyed.sort((a, b) => compareValues(a.value, b.value, descending) || a.index - b.index);
  return keyed.map(({ row }) => row);
}
