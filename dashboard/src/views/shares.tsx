/** Each accelerator as a bar of pods or jobs: requested, predicted, measured. */
import { useMemo, useRef } from "preact/hooks";
import type { DeviceRow } from "../api/types";
import { textsCache } from "../state/filter";
import { bytes, plural } from "../state/format";
import { lanesOf, nameOf, type Piece } from "../state/lanes";
import { href } from "../state/route";
import { type SortValue, sortRows } from "../state/sort";
import { useTable } from "../ui/context";
import { FilterBox, useFilter } from "../ui/filterbox";
import { Panel } from "../ui/panel";
import { State } from "../ui/parts";
import { Choice, useSegment } from "../ui/segments";
import { useWindow } from "../ui/virtual";
import { Holders } from "./holders";

const HEIGHT = 72;
const texts = textsCache<DeviceRow>((row) => ({
  node: row.node, name: `${row.name} ${row.model}`, state: row.state, kind: row.kind,
  holder: row.shares.map((share) => share.name).join(" "),
}));

const ORDERS: Record<string, { by(row: DeviceRow): SortValue; descending: boolean }> = {
  node: { by: (row) => row.key, descending: false },
  "most requested": { by: (row) => share(row.requested_bytes, row.memory_bytes), descending: true },
  "most measured": { by: (row) => share(row.memory_used_bytes, row.memory_bytes), descending: true },
  "largest reserve": { by: (row) => row.requested_bytes - (row.memory_used_bytes ?? row.requested_bytes), descending: true },
  "most holders": { by: (row) => row.shares.length, descending: true },
};

function share(part: number | null, all: number | null): number | null {
  return part === null || all === null || all === 0 ? null : part / all;
}

export function Shares({ selected }: { selected: string | null }) {
  const devices = useTable("devices");
  const [order, setOrder] = useSegment("node");
  const filter = useFilter(devices.rows, texts);
  const { by, descending } = ORDERS[order] as (typeof ORDERS)[string];
  const rows = useMemo(() => sortRows(filter.rows, by, descending), [filter.rows, by, descending]);
  const device = devices.rows.find((row) => row.key === selected);
  return (
    <Panel
      name="shares" title="Shares" summary={<Totals devices={devices.rows} />} table={devices} selected={device ? selected : null} layout="wide"
      tools={
        <>
          <Choice label="Order" value={order} onChange={setOrder} options={Object.keys(ORDERS)} />
          <FilterBox filter={filter} all={devices.rows.length} columns="node, name, state, kind, holder" />
        </>
      }
      list={<Bars rows={rows} selected={selected} empty={devices.loaded ? "No accelerator." : ""} />}
      detail={device && <DeviceShares device={device} />}
    />
  );
}

function Bars({ rows, selected, empty }: { rows: readonly DeviceRow[]; selected: string | null; empty: string }) {
  const box = useRef<HTMLDivElement>(null);
  const { first, last } = useWindow(box, rows.length, HEIGHT);
  return (
    <div class="list bars" ref={box} role="region" aria-label="Accelerators as bars" tabIndex={0}>
      <Legend />
      <ul style={{ paddingTop: `${first * HEIGHT}px`, paddingBottom: `${(rows.length - last) * HEIGHT}px` }}>
        {rows.slice(first, last).map((row) => <Bar key={row.key} device={row} selected={row.key === selected} />)}
      </ul>
      {rows.length === 0 && <div class="empty">{empty}</div>}
    </div>
  );
}

function Legend() {
  return (
    <p class="legend" aria-hidden="true">
      <span><i class="swatch requested" /> requested</span>
      <span><i class="swatch predicted" /> predicted</span>
      <span><i class="swatch measured" /> measured</span>
      <span><i class="swatch other" /> not of a workload</span>
    </p>
  );
}

function Bar({ device, selected }: { device: DeviceRow; selected: boolean }) {
  const lanes = lanesOf(device);
  const { memory_bytes: all, predicted_bytes: predicted, memory_used_bytes: used } = device;
  return (
    <li class={selected ? "selected" : ""}>
      <div class="who">
        <a href={href("shares", device.key)} aria-current={selected ? "true" : undefined}>{device.name || device.model}</a>
        <span class="under">{device.node}{device.state === "healthy" ? "" : <> · <State state={device.state} /></>}</span>
        <span class="under">{plural(device.shares.length, "holder")}</span>
      </div>
      {all === null ? <Undivided device={device} /> : <div class="lanes" aria-hidden="true">
        <Lane kind="requested" pieces={lanes.requested} named />
        <Lane kind="predicted" pieces={lanes.predicted} />
        <Lane kind="measured" pieces={lanes.measured} />
        {lanes.capacity > 0 && lanes.capacity < 1 && <span class="capacity" style={{ left: `${lanes.capacity * 100}%` }} />}
      </div>}
      {all !== null && <dl class="sums">
        <div><dt>requested</dt><dd>{bytes(device.requested_bytes)}</dd></div>
        <div><dt>predicted</dt><dd>{bytes(predicted)}</dd></div>
        <div><dt>measured</dt><dd>{bytes(used)}</dd></div>
        <div class="of"><dt>of</dt><dd>{bytes(all)}</dd></div>
      </dl>}
    </li>
  );
}

/** A device whose memory nobody divides: it is held as a whole, or free. */
function Undivided({ device }: { device: DeviceRow }) {
  const held = device.shares.length > 0;
  const names = device.shares.map((share) => nameOf(share)).join(", ");
  return (
    <div class="lanes">
      <span class="lane requested">
        {held ? <span style={{ left: "0", width: "100%" }}>{names}</span> : <em>free; held as a whole</em>}
      </span>
    </div>
  );
}

function Lane({ kind, pieces, named = false }: { kind: string; pieces: Piece[]; named?: boolean }) {
  return (
    <span class={`lane ${kind}`}>
      {pieces.map((piece, index) => (
        <span
          key={index} title={`${piece.name}: ${bytes(piece.bytes)} ${kind}`}
          class={`${piece.name === "not of a workload" ? "other" : ""} ${piece.over ? "over" : ""}`}
          style={{ left: `${piece.start * 100}%`, width: `${piece.width * 100}%` }}
        >
          {named ? piece.name : ""}
        </span>
      ))}
    </span>
  );
}

function DeviceShares({ device }: { device: DeviceRow }) {
  return (
    <>
      <h2>{device.name || device.model}</h2>
      <p class="lead"><a href={href("fleet", device.key)}>{device.key}</a></p>
      <Holders device={device} />
    </>
  );
}

function Totals({ devices }: { devices: readonly DeviceRow[] }) {
  return useMemo(() => {
    const held = devices.filter((row) => row.shares.length > 0);
    const shared = held.filter((row) => row.shares.length > 1).length;
    const requested = devices.reduce((sum, row) => sum + row.requested_bytes, 0);
    const used = devices.reduce((sum, row) => sum + (row.memory_used_bytes ?? 0), 0);
    return (
      <>
        {held.length} of {plural(devices.length, "accelerator")} held, {shared} shared · {bytes(requested)} requested,{" "}
        {bytes(used)} measured
      </>
    );
  }, [devices]);
}
