/** Header, navigation, what is stale, and the panel. */
import { useEffect, useRef } from "preact/hooks";
import type { About, TableName } from "../api/types";
import { dateTime } from "../state/format";
import { href, PANELS, type Panel, type Route } from "../state/route";
import { VIEWS } from "../views";
import { Banners } from "./banners";
import { useSelect, useTable } from "./context";
import { LiveState } from "./livestate";
import { useShortcuts } from "./shortcuts";
import { ThemeButton } from "./themebutton";

export const TABLES: Record<Panel, TableName> = {
  queue: "workloads", fleet: "devices", shares: "devices", predictions: "models", pipelines: "pipelines",
  augmentations: "augmentations", rightsizing: "proposals", simulations: "simulations",
};

const NAMES: Record<Panel, string> = {
  queue: "Queue", fleet: "Fleet", shares: "Shares", predictions: "Predictions", pipelines: "Pipelines",
  augmentations: "Augmentations", rightsizing: "Right-sizing", simulations: "Simulations",
};

export function Shell({ route }: { route: Route }) {
  const about = useSelect((live) => live.about) as About;
  const main = useRef<HTMLElement>(null);
  useShortcuts();
  useEffect(() => {
    document.title = `${NAMES[route.panel]} · ${about.source.name} · fairlead`;
  }, [route.panel, about.source.name]);
  const served = PANELS.filter((panel) => about.tables[TABLES[panel]] !== undefined);
  const View = VIEWS[route.panel];
  return (
    <div class="app">
      <button type="button" class="skip" onClick={() => main.current?.focus()}>Skip to the panel</button>
      <header class="top">
        <span class="brand">fairlead</span>
        <span class="source" title={`fairlead ${about.version}`}>
          {about.source.kind} <b>{about.source.name}</b>
          {about.source.taken !== null && <> of {dateTime(about.source.taken)}</>}
        </span>
        <span class="viewer">
          {about.viewer.name}
          {about.viewer.namespaces[0] !== "*" && about.viewer.namespaces.length > 0 && ` · ${about.viewer.namespaces.join(", ")}`}
          {about.viewer.actions.length === 0 && <span class="tag">read-only</span>}
        </span>
        <LiveState />
        <ThemeButton />
      </header>
      <nav aria-label="Panels">
        <ul>{served.map((panel) => <NavItem key={panel} panel={panel} current={panel === route.panel} />)}</ul>
      </nav>
      <main ref={main} tabIndex={-1}>
        <Banners />
        {served.includes(route.panel)
          ? <View key={route.panel} selected={route.key} />
          : <p class="empty">This {about.source.kind} has no {NAMES[route.panel].toLowerCase()}.</p>}
      </main>
    </div>
  );
}

function NavItem({ panel, current }: { panel: Panel; current: boolean }) {
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (current) link.current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [current]);
  return (
    <li>
      <a ref={link} href={href(panel)} aria-current={current ? "page" : undefined}>
        {NAMES[panel]}
        {panel === "queue" ? <Waiting /> : <Count table={TABLES[panel]} />}
      </a>
    </li>
  );
}

function Count({ table }: { table: TableName }) {
  const count = useSelect((live) => {
    const shown = live.table(table);
    return shown.loaded ? shown.total : (live.about?.tables[table]?.rows ?? 0);
  });
  return <span class="count">{count}</span>;
}

/** The queue is worth watching from every panel. */
function Waiting() {
  const { rows } = useTable("workloads");
  return <span class="count">{rows.filter((row) => row.state === "waiting").length}</span>;
}
