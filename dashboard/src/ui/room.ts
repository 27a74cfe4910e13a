/** Which columns of a list there is room for. */
import { useLayoutEffect, useState } from "preact/hooks";
import type { RefObject } from "preact";

/** Which columns go first where there is no room; one without a rank stays. */
export type Rank = "desk" | "tablet" | "phone";
export interface Sized { width?: number; from?: Rank }

const RANKS: readonly Rank[] = ["desk", "tablet", "phone"];
/** What the column without a width needs at least, in rem. */
const LEAST = 11;

/** Return the columns that fit into so many rem: the last of the lowest rank goes first. */
export function fitting<C extends Sized>(columns: readonly C[], room: number): readonly C[] {
  const kept = [...columns];
  for (const rank of RANKS) {
    for (let index = kept.length - 1; index >= 0 && wide(kept) > room; index -= 1) {
      if (kept[index]?.from === rank) kept.splice(index, 1);
    }
  }
  return kept;
}

function wide(columns: readonly Sized[]): number {
  return columns.reduce((sum, column) => sum + (column.width ?? LEAST), 0);
}

/** Return the columns that there is room for in a box, also after it changes. */
export function useRoom<C extends Sized>(box: RefObject<HTMLElement | null>, columns: readonly C[]): readonly C[] {
  const [width, setWidth] = useState(innerWidth);
  useLayoutEffect(() => {
    const element = box.current as HTMLElement;
    const read = () => setWidth(element.clientWidth);
    read();
    const size = new ResizeObserver(read);
    size.observe(element);
    return () => size.disconnect();
  }, [box]);
  return fitting(columns, width / 16);
}
