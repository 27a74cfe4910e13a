/** The filter of a list. */
import { useMemo, useState } from "preact/hooks";
import { matches, parseFilter, type Texts } from "../state/filter";

export interface Filter<R> { rows: readonly R[]; text: string; set(text: string): void }

/** Return the rows that the viewer's words leave. */
export function useFilter<R extends object>(rows: readonly R[], texts: (row: R) => Texts): Filter<R> {
  const [text, set] = useState("");
  const kept = useMemo(() => {
    const terms = parseFilter(text);
    return terms.length === 0 ? rows : rows.filter((row) => matches(terms, texts(row)));
  }, [rows, text, texts]);
  return { rows: kept, text, set };
}

export function FilterBox<R>({ filter, all, columns }: { filter: Filter<R>; all: number; columns: string }) {
  return (
    <label class="filter">
      <span class="offscreen">Filter: words, -word for without, column:word for one of {columns}</span>
      <input
        type="search"
        placeholder="Filter  ( / )"
        title={`Words; -word for without; column:word for one of ${columns}`}
        value={filter.text}
        onInput={(event) => filter.set(event.currentTarget.value)}
        spellcheck={false}
        autocomplete="off"
      />
      <span class="hits" aria-live="polite">{filter.text === "" ? "" : `${filter.rows.length} of ${all}`}</span>
    </label>
  );
}
