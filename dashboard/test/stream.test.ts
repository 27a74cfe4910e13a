import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "../src/api/client";
import { backoff, LONGEST_WAIT, Stream } from "../src/api/stream";

test("waits double up to a limit, and jitter keeps browsers apart", () => {
  const waits = [1, 2, 3, 4, 5, 9].map((tries) => backoff(tries, 1000, () => 0.5));
  assert.deepEqual(waits, [1000, 2000, 4000, 8000, LONGEST_WAIT, LONGEST_WAIT]);
  assert.deepEqual([backoff(1, 1000, () => 0), backoff(1, 1000, () => 1)], [750, 1250]);
});

function body(text: string): Response {
  return new Response(text, { headers: { "Content-Type": "text/event-stream" } });
}

test("a stream that ends is resumed from its last event, with the token in a header", async () => {
  const asked: { address: string; headers: Record<string, string> }[] = [];
  const answers = [body("retry: 1\nid: 7\nevent: change\ndata: one\n\n"), body("data: two\n\n")];
  const client = new Client("secret", async (address, init) => {
    asked.push({ address, headers: init?.headers as Record<string, string> });
    const answer = answers.shift();
    return answer ?? new Response(JSON.stringify({ error: { what: "no", where: "", next: "" } }), { status: 401 });
  });
  const events: string[] = [];
  const refused = await new Promise((resolve) => {
    const stream = new Stream(client, {
      event: ({ data }) => events.push(data), open: () => undefined, lost: () => undefined, refused: resolve,
    });
    void stream.follow(() => ["nodes"]);
  });
  assert.equal((refused as Error).message, "no");
  assert.deepEqual(events, ["one", "two"]);
  assert.deepEqual(asked.map(({ headers }) => headers["Last-Event-ID"]), [undefined, "7", "7"]);
  assert.ok(asked.every(({ headers, address }) => headers["Authorization"] === "Bearer secret" && !address.includes("secret")));
});

test("a stream that rests asks nothing until it is resumed", async () => {
  let asked = 0;
  const client = new Client(null, async () => {
    asked += 1;
    return new Response("{}", { status: 403 });
  });
  const refused = new Promise((resolve) => {
    const stream = new Stream(client, { event: () => undefined, open: () => undefined, lost: () => undefined, refused: resolve });
    stream.rest();
    void stream.follow(() => []);
    setImmediate(() => {
      assert.equal(asked, 0);
      stream.resume();
    });
  });
  await refused;
  assert.equal(asked, 1);
});
