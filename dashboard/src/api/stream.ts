/** One stream of events that is kept open: resumes from the last event, backs off, and notices silence. */
import { ApiError, type Client } from "./client";
import { EventParser, type ServerEvent } from "./sse";

export const FIRST_WAIT = 1_000;
export const LONGEST_WAIT = 8_000;
/** The server sends a comment every 15 s; twice that and a little is silence. */
export const SILENCE = 35_000;

/** Return how long to wait before try number `tries`; the jitter keeps browsers of one outage apart. */
export function backoff(tries: number, first = FIRST_WAIT, random: () => number = Math.random): number {
  const wait = Math.min(first * 2 ** Math.max(0, tries - 1), LONGEST_WAIT);
  return wait * (0.75 + random() / 2);
}

export interface StreamEvents {
  event(event: ServerEvent): void;
  open(): void;
  /** The stream ended; the next try is in `wait` milliseconds. */
  lost(error: unknown, wait: number): void;
  /** The server refuses this viewer; the stream is not tried again. */
  refused(error: ApiError): void;
}

export class Stream {
  private abort: AbortController | null = null;
  private wake: (() => void) | null = null;
  private closed = false;
  private resting = false;
  private lastId: string | null = null;
  private first = FIRST_WAIT;

  constructor(private readonly client: Client, private readonly events: StreamEvents) {}

  /** Follow these tables from now on, or from the last event of the stream before. */
  async follow(tables: () => string[]): Promise<void> {
    let tries = 0;
    while (!this.closed) {
      if (this.resting) await this.pause(null);
      if (this.closed) return;
      let error: unknown = null;
      try {
        await this.read(tables(), () => (tries = 0));
      } catch (caught) {
        error = caught;
      }
      if (this.closed) return;
      if (error instanceof ApiError && (error.status === 401 || error.status === 403)) return this.events.refused(error);
      if (error === RESTART) continue;
      tries += 1;
      const wait = backoff(tries, this.first);
      this.events.lost(error, wait);
      await this.pause(wait);
    }
  }

  /** Open the stream again at once, for another set of tables. */
  restart(): void {
    this.abort?.abort(RESTART);
    this.wake?.();
  }

  /** End the stream until `resume`: a browser has few connections for one server, and each tab takes one. */
  rest(): void {
    this.resting = true;
    this.abort?.abort(RESTART);
  }

  /** Go on from the last event. */
  resume(): void {
    if (!this.resting) return;
    this.resting = false;
    this.wake?.();
  }

  /** Try now instead of later: the network is back. */
  hurry(): void {
    this.wake?.();
  }

  close(): void {
    this.closed = true;
    this.abort?.abort();
    this.wake?.();
  }

  /** Say where the stream begins, as long as no event has said so: the next one resumes from there. */
  beginAt(revision: number): void {
    this.lastId ??= String(revision);
  }

  /** Forget where the stream was: the server counts from another beginning. */
  forget(): void {
    this.lastId = null;
  }

  private async read(tables: string[], opened: () => void): Promise<void> {
    const abort = new AbortController();
    this.abort = abort;
    const extra: Record<string, string> = { Accept: "text/event-stream" };
    if (this.lastId !== null) extra["Last-Event-ID"] = this.lastId;
    let silence = setTimeout(() => abort.abort(), SILENCE);
    try {
      const response = await this.client.open(`events?tables=${tables.join(",")}`, { signal: abort.signal, extra });
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      const decoder = new TextDecoder();
      const parser = new EventParser();
      opened();
      this.events.open();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(silence);
        silence = setTimeout(() => abort.abort(), SILENCE);
        for (const event of parser.push(decoder.decode(value, { stream: true }))) this.events.event(event);
        this.lastId = parser.lastId ?? this.lastId;
        this.first = parser.retry ?? this.first;
      }
    } catch (error) {
      throw abort.signal.reason === RESTART ? RESTART : error;
    } finally {
      clearTimeout(silence);
    }
  }

  /** Wait so long, or until it is woken; null: until then alone. */
  private pause(wait: number | null): Promise<void> {
    return new Promise((resolve) => {
      const timer = wait === null ? undefined : setTimeout(resolve, wait);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

const RESTART = Symbol("restart");
