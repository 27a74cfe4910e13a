import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser } from "../src/api/sse";

const TEXT = ': hi\nretry: 1000\nevent: hello\nid: 4\ndata: {"now":1}\n\n: beat\n\nid: 5\nevent: change\ndata: a\ndata: b\n\ndata\n\n';
const EXPECTED = [
  { event: "hello", data: '{"now":1}', id: "4" },
  { event: "change", data: "a\nb", id: "5" },
  { event: "message", data: "", id: "5" },
];

test("every cut of the stream gives the same events", () => {
  for (const ends of ["\n", "\r\n"]) {
    const text = TEXT.replaceAll("\n", ends);
    for (let cut = 0; cut <= text.length; cut += 1) {
      const parser = new EventParser();
      const events = [...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut))];
      assert.deepEqual(events, EXPECTED, `cut at ${cut}`);
      assert.equal(parser.retry, 1000);
      assert.equal(parser.lastId, "5");
    }
  }
});

test("an event that is not finished is not told", () => {
  assert.deepEqual(new EventParser().push("data: half\n"), []);
});
