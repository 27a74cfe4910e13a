/** Server-sent events, parsed by the rules of the HTML standard from a body that arrives in pieces. */

export interface ServerEvent { event: string; data: string; id: string | null }

/** Keeps the unfinished line and event between pieces. */
export class EventParser {
  private rest = "";
  private event = "";
  private data: string[] = [];
  /** Last id seen: where a resumed stream begins. */
  lastId: string | null = null;
  /** Milliseconds to wait before a reconnect, if the server named them. */
  retry: number | null = null;

  /** Return the events that this piece completes. */
  push(piece: string): ServerEvent[] {
    const lines = (this.rest + piece).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    const events: ServerEvent[] = [];
    for (const line of lines) {
      if (line === "") this.finish(events);
      else this.field(line);
    }
    return events;
  }

  private finish(events: ServerEvent[]): void {
    if (this.data.length > 0) {
      events.push({ event: this.event || "message", data: this.data.join("\n"), id: this.lastId });
    }
    this.event = "";
    this.data = [];
  }

  private field(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.data.push(value);
    else if (name === "event") this.event = value;
    else if (name === "id" && !value.includes("\0")) this.lastId = value;
    else if (name === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
  }
}
