import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page, Row } from "../src/api/types";
import { Table } from "../src/state/table";

type Named = Row & { at: number };
const row = (key: string, at: number): Named => ({ key, at });
const page = (revision: number, rows: Named[], next: string | null): Page<Named> =>
  ({ table: "nodes", revision, total: 3, next, rows, command: "c", stale: null });
const change = (revision: number, put: Named[], drop: string[] = []) => ({ table: "nodes", revision, put, drop, total: 3 });
const shown = (table: Table<Named>) => table.shown.rows.map(({ key, at }) => `${key}${at}`).join(" ");

test("pages are shown as they come, and changes are applied in key order", () => {
  const table = new Table<Named>();
  table.begin();
  table.page(page(10, [row("b", 1)], "b"));
  assert.equal(shown(table), "b1");
  assert.equal(table.shown.loaded, false);
  table.page(page(10, [row("c", 1)], null));
  assert.equal(table.shown.loaded, true);
  table.change(change(11, [row("a", 1), row("c", 2)], ["b"]));
  assert.equal(shown(table), "a1 c2");
});

test("a change between two pages wins over the older page, and a newer page over the older change", () => {
  const table = new Table<Named>();
  table.begin();
  table.page(page(10, [row("a", 1)], "a"));
  table.change(change(11, [row("b", 11), row("c", 11)], ["a"]));
  table.page(page(10, [row("b", 1)], "b"));
  table.page(page(12, [row("c", 12)], null));
  assert.equal(shown(table), "b11 c12");
});

test("a row that was dropped while pages loaded does not come back with an older page", () => {
  const table = new Table<Named>();
  table.begin();
  table.page(page(10, [row("a", 1)], "a"));
  table.change(change(11, [], ["b"]));
  table.page(page(10, [row("b", 1)], null));
  assert.equal(shown(table), "a1");
});

test("changes that the pages know already are passed over", () => {
  const table = new Table<Named>();
  table.begin();
  table.page(page(10, [row("a", 10)], null));
  table.change(change(9, [row("a", 9)]));
  assert.equal(shown(table), "a10");
});

test("while a table is read again, what is shown stays until it is whole", () => {
  const table = new Table<Named>();
  table.begin();
  table.page(page(10, [row("a", 1), row("b", 1)], null));
  table.begin();
  table.page(page(2, [row("a", 2)], "a"));
  assert.equal(shown(table), "a1 b1");
  table.page(page(2, [row("c", 2)], null));
  assert.equal(shown(table), "a2 c2");
  table.change(change(3, [row("d", 3)]));
  assert.equal(shown(table), "a2 c2 d3");
});
