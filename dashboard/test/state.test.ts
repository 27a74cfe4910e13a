import assert from "node:assert/strict";
import { test } from "node:test";
import type { DeviceRow, ModelDevice, Why, WorkloadRow } from "../src/api/types";
import { ServerClock } from "../src/state/clock";
import { matches, parseFilter, textsCache } from "../src/state/filter";
import { age, bytes, figure, latency, percent, withUnit } from "../src/state/format";
import { lanesOf } from "../src/state/lanes";
import { href, parseRoute, tokenOf } from "../src/state/route";
import { sortRows } from "../src/state/sort";
import { brief, countedOf, groupWhy, headline } from "../src/state/why";
import { axisOf, position } from "../src/state/whiskers";
import { fitting } from "../src/ui/room";
import { windowOf } from "../src/ui/virtual";

test("ages come from the server's clock, however wrong the browser's is", () => {
  let steady = 100;
  const clock = new ServerClock(() => steady);
  clock.set(5000);
  steady += 12;
  assert.equal(clock.now(), 5012);
});

test("figures read as people write them, and unknown is no zero", () => {
  const table: [string, string][] = [
    [bytes(null), "–"], [bytes(0), "0 B"], [bytes(1536), "1.5 KiB"], [bytes(16 * 2 ** 30), "16 GiB"], [bytes(2 ** 30 - 1), "1.0 GiB"],
    [percent(0.996), "100 %"], [figure(1234.5), "1\u202f235"], [figure(0.01234), "0.0123"], [figure(12.345), "12.3"],
    [withUnit(null, "W"), "–"], [latency(0.00024), "240 µs"], [latency(0.0081), "8.1 ms"], [latency(2.4), "2.4 s"],
    [age(12.9), "12s"], [age(250), "4m 10s"], [age(240), "4m"], [age(11100), "3h 5m"], [age(532800), "6d 4h"], [age(-3), "0s"],
  ];
  for (const [given, expected] of table) assert.equal(given, expected);
});

test("a filter takes words, words that must not be there, and columns", () => {
  const texts = textsCache<{ node: string; why: string }>((row) => ({ node: row.node, why: row.why }));
  const row = texts({ node: "Rack-2", why: "0/12 nodes: lack memory" });
  const table: [string, boolean][] = [
    ["", true], ["rack", true], ["rack -memory", false], ["node:rack-2", true], ["why:rack", false], ["-why:rack memory", true],
    ["-", true], ["nodes: lack", true], ["other:rack", false],
  ];
  for (const [text, expected] of table) assert.equal(matches(parseFilter(text), row), expected, text);
});

test("unknown values are last in both directions, and names count", () => {
  const rows = [{ k: "n10", v: 2 }, { k: "n9", v: null }, { k: "n2", v: 7 }];
  assert.deepEqual(sortRows(rows, (row) => row.v, false).map(({ k }) => k), ["n10", "n2", "n9"]);
  assert.deepEqual(sortRows(rows, (row) => row.v, true).map(({ k }) => k), ["n2", "n10", "n9"]);
  assert.deepEqual(sortRows(rows, (row) => row.k, false).map(({ k }) => k), ["n2", "n9", "n10"]);
});

test("addresses keep keys with slashes, and a token is no panel", () => {
  assert.deepEqual(parseRoute(href("queue", "shop/a b%2")), { panel: "queue", key: "shop/a b%2" });
  assert.deepEqual(parseRoute("#/nowhere/x"), { panel: "queue", key: null });
  assert.deepEqual(parseRoute(""), { panel: "queue", key: null });
  assert.equal(tokenOf("#token=a.b-c%3D"), "a.b-c=");
  assert.equal(tokenOf("#/queue"), null);
});

const HUGE = "0 of 800 accelerators can take huge: 711 lack memory (need 200 GiB, most 77 GiB free), 16 are on nodes that are cordoned; smallest change that would fit: ask for 77 GiB instead of 200 GiB";

test("reasons that differ in figures and names only are one", () => {
  const whys = [
    HUGE, HUGE.replaceAll("huge", "other").replace("200", "120"), "waits for job 3 (prepare)", "quota gpu: 4 of 4 in use",
    "rank-0 cannot be placed: only 0 of 3 of the gang fit; then 0 of 800 accelerators can take rank-0: 716 lack CPU",
  ];
  const groups = groupWhy(whys.map((why) => ({ why }) as WorkloadRow)).map(({ count, example }) => `${count} ${example}`);
  assert.deepEqual(groups, [
    "2 lack memory (need 200 GiB, most 77 GiB free)", "1 only 0 of 3 of the gang fit", "1 quota gpu: 4 of 4 in use",
    "1 waits for job 3 (prepare)",
  ]);
});

test("a list shows the reasons, and a detail does not repeat them", () => {
  assert.equal(brief(HUGE), "711 lack memory (need 200 GiB, most 77 GiB free), 16 are on nodes that are cordoned");
  assert.equal(brief("x goes to node-0"), "x goes to node-0");
  const reason = (count: number, text: string) => ({ count, of: 800, text, filter: "f", example: null });
  const reasons = [reason(711, "lack memory (need 200 GiB, most 77 GiB free)"), reason(16, "are on nodes that are cordoned")];
  const why = { summary: HUGE, reasons } as unknown as Why;
  assert.equal(headline(why), "0 of 800 accelerators can take huge.");
  assert.equal(headline({ ...why, reasons: [] }), HUGE.split("; smallest")[0]);
  assert.equal(countedOf(why), "accelerators");
});

test("an accelerator's bars have one scale, and what nobody asked for shows", () => {
  const share = { holder: "a", name: "a", requested_bytes: 40, predicted_bytes: null, measured_bytes: 50, whole: false };
  const lanes = lanesOf({ memory_bytes: 100, memory_used_bytes: 60, shares: [share, { ...share, requested_bytes: 80 }] } as DeviceRow);
  assert.equal(lanes.scale, 120);
  assert.deepEqual(lanes.requested.map(({ bytes: size }) => size), [40, 80]);
  assert.deepEqual(lanes.predicted, []);
  assert.deepEqual(lanes.measured.map(({ over }) => over), [true, false]);
  const idle = lanesOf({ memory_bytes: 100, memory_used_bytes: 7, shares: [] } as unknown as DeviceRow);
  assert.deepEqual(idle.measured.map(({ name, bytes: size }) => [name, size]), [["not of a workload", 7]]);
});

test("latencies stand on an axis of powers of ten; unknown ones stand nowhere", () => {
  const known = { low_seconds: 0.002, seconds: 0.005, p90_seconds: 0.05 } as ModelDevice;
  const unknown = { low_seconds: null, seconds: null, p90_seconds: null } as ModelDevice;
  const axis = axisOf([known, unknown]);
  assert.deepEqual(axis?.ticks.map((tick) => tick.toFixed(3)), ["0.001", "0.010", "0.100"]);
  assert.equal(axis && position(axis, 0.01), 0.5);
  assert.equal(axisOf([unknown]), null);
});

test("only rows in view are drawn, and columns go where there is no room", () => {
  assert.deepEqual(windowOf(8000, 28, 28 * 4000, 560), { first: 3992, last: 4028 });
  assert.deepEqual(windowOf(3, 28, 0, 560), { first: 0, last: 3 });
  const columns = [{}, { width: 8, from: "phone" as const }, { width: 5, from: "desk" as const }, { width: 6 }];
  assert.deepEqual(fitting(columns, 30), columns);
  assert.equal(fitting(columns, 29).length, 3);
  assert.deepEqual(fitting(columns, 5), [{}, { width: 6 }]);
});
