/** The frame of a panel: heading, tools, list and detail beside it (or instead of it, on a phone), and the command. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { TableView } from "../state/table";
import { plural } from "../state/format";
import { href, type Panel as PanelName } from "../state/route";
import { Command } from "./command";
import { Age } from "./parts";

interface Props {
  name: PanelName;
  title: string;
  summary: ComponentChildren;
  tools?: ComponentChildren;
  table: TableView;
  list: ComponentChildren;
  detail?: ComponentChildren;
  /** What the detail is about; null where nothing is chosen. */
  selected: string | null;
  command?: string;
  layout?: "even" | "wide" | "narrow";
  /** False where the panel always shows a detail, if there is room. */
  closable?: boolean;
}

export function Panel(props: Props) {
  const { table, selected } = props;
  return (
    <div class="panel">
      <header class="panel-head">
        <h1>{props.title}</h1>
        <p class="summary">{props.summary}</p>
        {props.tools !== undefined && <div class="tools">{props.tools}</div>}
      </header>
      <Notices table={table} />
      <div class={`split ${selected === null ? "" : "chosen"} ${props.layout ?? ""}`}>
        <div class="master">{props.list}</div>
        {props.detail !== undefined && selected !== null && (
          <Detail key={selected} name={props.name} closable={props.closable ?? true}>{props.detail}</Detail>
        )}
      </div>
      <Command command={props.command ?? table.command} />
    </div>
  );
}

function Notices({ table }: { table: TableView }) {
  const loading = !table.loaded && table.error === null;
  return (
    <div class="notices">
      {loading && (
        <div class="loading" role="status">
          <progress max={table.total || 1} value={table.rows.length} aria-label="Loading" />
          {table.total > 0 ? `Loading ${table.rows.length} of ${plural(table.total, "row")}` : "Loading"}
        </div>
      )}
      {table.error !== null && <p class="banner bad" role="status">Not loaded: {table.error}</p>}
      {table.stale !== null && (
        <p class="banner warn" role="status">
          These rows are stale for <Age since={table.stale.since} />: {table.stale.reason}
        </p>
      )}
    </div>
  );
}

function Detail({ name, closable, children }: { name: PanelName; closable: boolean; children: ComponentChildren }) {
  const box = useRef<HTMLElement>(null);
  useEffect(() => box.current?.scrollTo(0, 0), []);
  return (
    <aside class="detail" ref={box} aria-label="Detail" tabIndex={0}>
      {closable && <a class="back" href={href(name)}>← All</a>}
      {children}
    </aside>
  );
}
