/**
 * The page without fairlead: the built files and an invented fleet that changes.
 *
 *     npm run build && npm run dev [-- --port 8700 --nodes 12 --each 4 --workloads 90 --token secret --changes 2]
 */
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { parseArgs } from "node:util";
import { frame, makeFleet, makeWorkloads, modelDevices, now, OTHERS, pipeline, random, series, simulation, why } from "./fixture.mjs";

const { values: options } = parseArgs({
  options: Object.fromEntries(Object.entries({ port: "8700", nodes: "12", each: "4", workloads: "90", token: "", changes: "2" })
    .map(([name, value]) => [name, { type: "string", default: value }])),
});
const STATIC = new URL("../../src/fairlead/serve/dashboard/static/", import.meta.url);
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", svg: "image/svg+xml", txt: "text/plain" };
const COMMANDS = { nodes: "fairlead top --nodes", devices: "fairlead top", workloads: "fairlead ps --all", pipelines: "fairlead pipeline list", augmentations: "fairlead augment list", proposals: "fairlead rightsize", simulations: "fairlead simulate list", models: "fairlead models" };

const { nodes, devices } = makeFleet(Number(options.nodes), Number(options.each));
const lists = { nodes, devices, workloads: makeWorkloads(Number(options.workloads), devices, nodes.length), ...OTHERS };
const tables = Object.fromEntries(Object.entries(lists).map(([name, rows]) => [name, new Map(rows.map((row) => [row.key, row]))]));
let revision = 1;
const streams = new Set();

const routes = [
  [/^about$/, () => ({
    version: "0.1.0", api: 1, source: { kind: "cluster", name: "workshop", taken: null }, now: now(), stale: [],
    viewer: { name: "ada", namespaces: ["*"], actions: ["cancel", "rightsize", "drain"] },
    tables: Object.fromEntries(Object.keys(tables).map((name) => [name, { rows: tables[name].size, command: COMMANDS[name] }])),
  })],
  [/^tables\/(\w+)$/, ([name], query) => {
    const keys = [...tables[name].keys()].sort().filter((key) => key > (query.get("after") ?? ""));
    const limit = Number(query.get("limit") ?? 500);
    const rows = keys.slice(0, limit).map((key) => tables[name].get(key));
    return { table: name, revision, total: tables[name].size, next: keys.length > limit ? rows.at(-1).key : null, rows, command: COMMANDS[name], stale: null };
  }],
  [/^workloads\/([^/]+)\/why$/, ([key]) => why(tables.workloads.get(key), nodes.length)],
  [/^models\/([^/]+)\/devices$/, ([name]) => modelDevices(name)],
  [/^pipelines\/([^/]+)$/, ([key]) => pipeline(key)],
  [/^pipelines\/([^/]+)\/frames\/([^/]+)$/, ([, id]) => frame(id)],
  [/^devices\/([^/]+)\/series$/, ([key], query) => series(key, Number(query.get("seconds") ?? 600))],
  [/^simulations\/([^/]+)$/, ([key]) => simulation(key)],
  [/^actions\/(\w+)$/, ([name]) => ({ done: `${name}: done` })],
];

function change(name, put, drop = []) {
  revision += 1;
  for (const row of put) tables[name].set(row.key, row);
  for (const key of drop) tables[name].delete(key);
  const data = JSON.stringify({ table: name, revision, put, drop, total: tables[name].size });
  for (const stream of streams) if (stream.tables.includes(name)) stream.response.write(`id: ${revision}\nevent: change\ndata: ${data}\n\n`);
}

setInterval(() => {
  const some = [...tables.devices.values()].filter(() => random() < Math.min(1, Number(options.changes) * 3 / devices.length));
  if (some.length > 0) change("devices", some.map((row) => ({ ...row, measured: now(), utilisation: row.utilisation === null ? null : random() })));
}, 500);

createServer(async (request, response) => {
  const url = new URL(request.url, "http://x");
  response.setHeader("Content-Security-Policy", POLICY);
  if (!url.pathname.startsWith("/api/v1/")) return file(url.pathname, response);
  if (options.token !== "" && request.headers.authorization !== `Bearer ${options.token}`) {
    return json(response, 401, { error: { what: "this token is not known", where: "Authorization", next: "fairlead dashboard prints an address with the right one" } });
  }
  const path = url.pathname.slice("/api/v1/".length);
  if (path === "events") return events(url, response);
  for (const [pattern, answer] of routes) {
    const match = pattern.exec(path);
    if (match) return json(response, 200, answer(match.slice(1).map(decodeURIComponent), url.searchParams));
  }
  return json(response, 404, { error: { what: "there is no such answer", where: path, next: "" } });
}).listen(Number(options.port), "127.0.0.1", () => console.log(`http://127.0.0.1:${options.port}/`));

function events(url, response) {
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  response.write(`retry: 1000\nevent: hello\ndata: ${JSON.stringify({ revision, now: now() })}\n\n`);
  const stream = { response, tables: (url.searchParams.get("tables") ?? "").split(",") };
  streams.add(stream);
  const beat = setInterval(() => response.write(": beat\n\n"), 15000);
  response.on("close", () => { clearInterval(beat); streams.delete(stream); });
}

function json(response, status, body) {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify(body));
}

async function file(path, response) {
  const name = path === "/" ? "index.html" : path.slice(1);
  try {
    const body = await readFile(new URL(name, STATIC));
    response.writeHead(200, { "Content-Type": TYPES[name.split(".").at(-1)] ?? "application/octet-stream" });
    response.end(body);
  } catch {
    response.writeHead(404).end();
  }
}
