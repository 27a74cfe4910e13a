/** Everything that the page knows of the server: about, tables, the stream, and what is stale. */
import { ApiError, type Client } from "../api/client";
import type { ServerEvent } from "../api/sse";
import { Stream } from "../api/stream";
import type { About, Change, Page, Row, Rows, Stale, TableName } from "../api/types";
import { ServerClock } from "./clock";
import { EMPTY, Table, type TableView } from "./table";

const PAGE = 2000;

export type Connection =
  | { state: "connecting" }
  | { state: "live"; since: number }
  | { state: "lost"; since: number; next: number; reason: string }
  | { state: "refused"; reason: string };

/** The one source of data of all panels. `subscribe` is called after every change of what it shows. */
export class Live {
  readonly clock = new ServerClock();
  about: About | null = null;
  connection: Connection = { state: "connecting" };
  stale = new Map<string, Stale>();
  private readonly tables = new Map<TableName, Table>();
  private readonly loads = new Map<TableName, AbortController>();
  /** Read without a stream: changes may be missing. */
  private readonly unsure = new Set<TableName>();
  private readonly listeners = new Set<() => void>();
  private readonly stream: Stream;
  private revision = -1;
  private announced = 0;
  private streaming = false;

  constructor(readonly client: Client) {
    this.stream = new Stream(client, {
      event: (event) => this.onEvent(event),
      open: () => this.onOpen(),
      lost: (error, wait) => this.onLost(error, wait),
      refused: (error) => this.onRefused(error),
    });
  }

  /** The browser says that it has a network again. */
  hurry(): void {
    this.stream.hurry();
  }

  /** The page is not looked at, or is again. */
  look(seen: boolean): void {
    if (seen) this.stream.resume();
    else this.stream.rest();
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Read what the server is; then follow its changes. Throw ApiError if it wants another token. */
  async start(): Promise<void> {
    await this.readAbout();
    this.followOnce();
  }

  stop(): void {
    this.stream.close();
    for (const load of this.loads.values()) load.abort();
  }

  table<N extends TableName>(name: N): TableView<Rows[N]> {
    return (this.tables.get(name)?.shown ?? EMPTY) as TableView<Rows[N]>;
  }

  /** Read these tables and keep them current from now on. */
  need(names: readonly TableName[]): void {
    const fresh = names.filter((name) => !this.tables.has(name) && this.about?.tables[name] !== undefined);
    if (fresh.length === 0) return;
    for (const name of fresh) this.tables.set(name, new Table());
    if (this.streaming) this.stream.restart();
    this.followOnce();
  }

  /** Read what nobody has read yet: after the stream says hello, so that no change falls in between. */
  private loadFresh(): void {
    for (const name of this.tables.keys()) if (!this.loads.has(name)) void this.load(name);
  }

  private followOnce(): void {
    if (this.streaming || this.tables.size === 0) return;
    this.streaming = true;
    void this.stream.follow(() => [...this.tables.keys()]);
  }

  private async readAbout(): Promise<void> {
    const about = await this.client.get<About>("about");
    this.clock.set(about.now);
    this.about = about;
    this.stale = new Map(about.stale.map((stale) => [stale.source, stale]));
    this.changed();
  }

  private async load(name: TableName): Promise<void> {
    const table = this.tables.get(name) as Table;
    this.loads.get(name)?.abort();
    const abort = new AbortController();
    this.loads.set(name, abort);
    table.begin();
    let after = "";
    for (;;) {
      try {
        const page = await this.client.get<Page<Row>>(`tables/${name}?limit=${PAGE}${after}`, abort.signal);
        if (abort.signal.aborted) return;
        table.page(page);
        this.changed();
        if (page.next === null) return;
        after = `&after=${encodeURIComponent(page.next)}`;
      } catch (error) {
        if (abort.signal.aborted) return;
        table.fail(error instanceof ApiError ? error.fault.what : String(error));
        this.changed();
        if (error instanceof ApiError && error.status !== 0 && error.status < 500) return;
        await new Promise((resolve) => setTimeout(resolve, 2000));
        if (abort.signal.aborted) return;
      }
    }
  }

  private onOpen(): void {
    const healed = this.connection.state === "lost";
    this.connection = { state: "live", since: this.clock.now() };
    if (healed) void this.readAbout().catch(() => undefined);
    this.changed();
  }

  private onLost(error: unknown, wait: number): void {
    const now = this.clock.now();
    const since = this.connection.state === "lost" ? this.connection.since : now;
    const reason = error instanceof ApiError ? error.fault.what : "the stream of changes ended";
    this.connection = { state: "lost", since, next: now + wait / 1000, reason };
    for (const name of this.tables.keys()) {
      if (this.loads.has(name)) continue;
      this.unsure.add(name);
      void this.load(name);
    }
    this.changed();
  }

  private onRefused(error: ApiError): void {
    this.connection = { state: "refused", reason: error.fault.what };
    this.changed();
  }

  private onEvent(event: ServerEvent): void {
    if (event.event === "hello") this.onHello(JSON.parse(event.data) as { revision: number; now: number });
    else if (event.event === "change") this.onChange(JSON.parse(event.data) as Change);
    else if (event.event === "stale") this.onStale(JSON.parse(event.data) as Stale);
    else if (event.event === "reset") this.reset((JSON.parse(event.data) as { table: TableName }).table);
    this.changed();
  }

  private onHello(hello: { revision: number; now: number }): void {
    this.clock.set(hello.now);
    if (hello.revision < this.revision) {
      this.stream.forget();
      for (const name of this.tables.keys()) this.reset(name);
    }
    this.revision = hello.revision;
    this.stream.beginAt(hello.revision);
    for (const name of this.unsure) this.reset(name);
    this.unsure.clear();
    this.loadFresh();
  }

  private onChange(change: Change): void {
    this.revision = Math.max(this.revision, change.revision);
    this.tables.get(change.table as TableName)?.change(change);
  }

  private onStale(stale: Stale): void {
    if (stale.since === null) this.stale.delete(stale.source);
    else this.stale.set(stale.source, stale);
  }

  private reset(name: TableName): void {
    if (this.tables.has(name)) void this.load(name);
  }

  /** Tell the listeners once a frame: a burst of events is one drawing. */
  private changed(): void {
    if (this.announced !== 0) return;
    this.announced = setTimeout(() => {
      this.announced = 0;
      for (const listener of this.listeners) listener();
    }, 16) as unknown as number;
  }
}
