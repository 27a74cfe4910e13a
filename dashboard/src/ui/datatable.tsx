/** A long list as a table: filtered by the panel, sorted here, drawn only where it is looked at. */
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Row } from "../api/types";
import { type Order, type SortValue, sortRows } from "../state/sort";
import { PHONE, useMedia } from "./context";
import { type Rank, useRoom } from "./room";
import { useWindow } from "./virtual";

export interface Column<R> {
  id: string;
  label: string;
  cell(row: R): ComponentChildren;
  sort?(row: R): SortValue;
  /** Width in rem; the column without one takes what is left. */
  width?: number;
  figures?: boolean;
  /** Where there is no room for all, those of the desk go first, then those of the tablet. */
  from?: Rank;
}

interface Props<R extends Row> {
  label: string;
  columns: readonly Column<R>[];
  rows: readonly R[];
  first: Order;
  /** Address of a row; the first column is the link. */
  link(row: R): string;
  selected: string | null;
  empty: ComponentChildren;
  /** What stands below the name where there is no room for columns. */
  under?(row: R): ComponentChildren;
}

export function DataTable<R extends Row>(props: Props<R>) {
  const { rows } = props;
  const [order, setOrder] = useState(props.first);
  const box = useRef<HTMLDivElement>(null);
  const columns = useRoom(box, props.columns);
  const column = props.columns.find(({ id }) => id === order.column);
  const sorted = useMemo(
    () => (column?.sort ? sortRows(rows, column.sort, order.descending) : [...rows]),
    [rows, column, order.descending],
  );
  const phone = useMedia(PHONE);
  const height = phone && props.under ? 50 : 28;
  const { first, last } = useWindow(box, sorted.length, height);
  const move = useArrows(box, sorted.length, height);
  return (
    <div class="list" ref={box} role="region" aria-label={props.label} tabIndex={0} onKeyDown={move}>
      <table aria-rowcount={sorted.length + 1} class={height > 28 ? "tall" : ""}>
        <colgroup>
          {columns.map((col) => (
            <col key={col.id} style={col.width ? { width: `${col.width}rem` } : {}} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((col) => (
              <Head key={col.id} column={col} order={order} onOrder={setOrder} />
            ))}
          </tr>
        </thead>
        <tbody>
          <Space rows={first} height={height} columns={columns.length} />
          {sorted.slice(first, last).map((row, index) => (
            <tr
              key={row.key}
              data-index={first + index}
              aria-rowindex={first + index + 2}
              class={row.key === props.selected ? "selected" : ""}
            >
              {columns.map((col, place) => (
                <td key={col.id} class={col.figures ? "figures" : ""}>
                  {place === 0 ? (
                    <a href={props.link(row)} aria-current={row.key === props.selected ? "true" : undefined}>
                      {col.cell(row)}
                    </a>
                  ) : (
                    col.cell(row)
                  )}
                  {place === 0 && height > 28 && <span class="under">{props.under?.(row)}</span>}
                </td>
              ))}
            </tr>
          ))}
          <Space rows={sorted.length - last} height={height} columns={columns.length} />
        </tbody>
      </table>
      {sorted.length === 0 && <div class="empty">{props.empty}</div>}
    </div>
  );
}

interface HeadProps<R> { column: Column<R>; order: Order; onOrder(order: Order): void }

function Head<R>({ column, order, onOrder }: HeadProps<R>) {
  const own = order.column === column.id;
  const sort = own ? (order.descending ? "descending" : "ascending") : undefined;
  const next = { column: column.id, descending: own ? !order.descending : Boolean(column.figures) };
  return (
    <th scope="col" aria-sort={sort} class={column.figures ? "figures" : ""}>
      {column.sort ? (
        <button type="button" onClick={() => onOrder(next)}>
          {column.label}
          <span class="arrow" aria-hidden="true">{own ? (order.descending ? "▾" : "▴") : ""}</span>
        </button>
      ) : (
        column.label
      )}
    </th>
  );
}

function Space({ rows, height, columns }: { rows: number; height: number; columns: number }) {
  if (rows <= 0) return null;
  return (
    <tr class="space" aria-hidden="true">
      <td colSpan={columns} style={{ height: `${rows * height}px` }} />
    </tr>
  );
}

/** Arrow keys go from row to row, also to rows that are not drawn yet. */
function useArrows(box: { current: HTMLDivElement | null }, count: number, height: number) {
  const wanted = useRef<number | null>(null);
  const reach = () => {
    const link = box.current?.querySelector<HTMLElement>(`tr[data-index="${wanted.current}"] a`);
    if (!link) return;
    link.focus({ preventScroll: true });
    wanted.current = null;
  };
  useEffect(() => {
    if (wanted.current !== null) reach();
  });
  return (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -count, End: count }[event.key];
    if (step === undefined || box.current === null || count === 0) return;
    const row = (event.target as HTMLElement).closest("tr[data-index]");
    if (row === null && wanted.current === null && event.key !== "ArrowDown") return;
    const now = wanted.current ?? (row === null ? -1 : Number(row.getAttribute("data-index")));
    const next = Math.max(0, Math.min(count - 1, now + step));
    const { scrollTop, clientHeight } = box.current;
    const top = next * height;
    if (top < scrollTop) box.current.scrollTop = top;
    else if (top + 2 * height > scrollTop + clientHeight) box.current.scrollTop = top + 2 * height - clientHeight;
    wanted.current = next;
    reach();
    event.preventDefault();
  };
}
