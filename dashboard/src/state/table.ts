/** One table of the server, kept whole in the browser: pages while it loads, then changes. Pure but for itself. */
import type { Change, Page, Row, Stale } from "../api/types";

/** What the page shows of a table. A new value after every change. */
export interface TableView<R extends Row = Row> {
  rows: readonly R[];
  total: number;
  loaded: boolean;
  command: string;
  stale: { since: number; reason: string } | null;
  error: string | null;
}

export const EMPTY: TableView<never> = { rows: [], total: 0, loaded: false, command: "", stale: null, error: null };

/** Rows by key. Changes that arrive while pages load win over older pages. */
export class Table<R extends Row = Row> {
  private rows = new Map<string, R>();
  private incoming: Map<string, R> | null = null;
  private touched = new Map<string, number>();
  private revision = -1;
  private order: string[] = [];
  private view: TableView<R> = EMPTY;

  /** Begin to read the table; what is shown stays until the pages are complete, except the first time. */
  begin(): void {
    this.incoming = new Map();
    this.touched.clear();
    this.revision = -1;
  }

  page(page: Page<R>): void {
    const target = this.incoming ?? this.rows;
    if (this.revision < 0) this.revision = page.revision;
    for (const row of page.rows) {
      if ((this.touched.get(row.key) ?? -1) <= page.revision) target.set(row.key, row);
    }
    if (page.next === null) this.finish();
    const first = !this.view.loaded;
    const shown = first && this.incoming !== null ? this.incoming : this.rows;
    const loaded = this.view.loaded || page.next === null;
    this.view = { rows: this.inOrder(shown), total: page.total, loaded, command: page.command, stale: page.stale, error: null };
  }

  private finish(): void {
    if (this.incoming !== null) this.rows = this.incoming;
    this.incoming = null;
    this.touched.clear();
  }

  /** Apply a change; one that is older than the pages is known already. */
  change(change: Change): void {
    if (this.revision < 0 && this.incoming === null) return;
    if (change.revision <= this.revision) return;
    const target = this.incoming ?? this.rows;
    for (const row of change.put as R[]) {
      target.set(row.key, row);
      if (this.incoming !== null) this.touched.set(row.key, change.revision);
    }
    for (const key of change.drop) {
      target.delete(key);
      if (this.incoming !== null) this.touched.set(key, change.revision);
    }
    if (this.incoming === null || !this.view.loaded) this.view = { ...this.view, rows: this.inOrder(target), total: change.total };
  }

  fail(error: string): void {
    this.view = { ...this.view, error };
  }

  markStale(stale: Stale | null): void {
    const since = stale?.since ?? null;
    this.view = { ...this.view, stale: stale && since !== null ? { since, reason: stale.reason } : null };
  }

  get shown(): TableView<R> {
    return this.view;
  }

  /** Return the rows in key order. Most changes add no key: the order of before is then still right. */
  private inOrder(rows: Map<string, R>): R[] {
    const kept = this.order.filter((key) => rows.has(key));
    if (kept.length !== rows.size) this.order = [...rows.keys()].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    else this.order = kept;
    return this.order.map((key) => rows.get(key) as R);
  }
}
