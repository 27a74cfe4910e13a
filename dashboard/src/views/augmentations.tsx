/** Slices of servers lent to small devices: the rates of both sides, and how far their job is. */
import type { AugmentationRow } from "../api/types";
import { textsCache } from "../state/filter";
import { percent, plural, withUnit } from "../state/format";
import { href } from "../state/route";
import { Command } from "../ui/command";
import { useTable } from "../ui/context";
import { type Column, DataTable } from "../ui/datatable";
import { FilterBox, useFilter } from "../ui/filterbox";
import { Panel } from "../ui/panel";
import { Facts, Memory, Meter, Part, State } from "../ui/parts";

const rate = (value: number | null) => withUnit(value, "/s");

const COLUMNS: Column<AugmentationRow>[] = [
  { id: "name", label: "Augmentation", cell: (row) => row.name, sort: (row) => row.name },
  { id: "device", label: "Device", cell: (row) => row.device, sort: (row) => row.device, width: 10, from: "tablet" },
  { id: "unit", label: "Slice", cell: (row) => row.unit, sort: (row) => row.unit, width: 10, from: "desk" },
  { id: "state", label: "State", cell: (row) => <State state={row.state} title={row.reason} />, sort: (row) => row.state, width: 7.5 },
  { id: "deviceRate", label: "Device", figures: true, cell: (row) => rate(row.device_rate), sort: (row) => row.device_rate, width: 6, from: "phone" },
  { id: "serverRate", label: "Server", figures: true, cell: (row) => rate(row.server_rate), sort: (row) => row.server_rate, width: 6, from: "phone" },
  { id: "progress", label: "Progress", figures: true, cell: (row) => <Meter label="Progress" value={row.progress} />, sort: (row) => row.progress, width: 8 },
  { id: "bound", label: "Bound by", cell: (row) => row.bound ?? "", sort: (row) => row.bound, width: 8, from: "desk" },
];
const texts = textsCache<AugmentationRow>((row) => ({
  name: row.name, namespace: row.namespace, device: row.device, state: row.state, bound: row.bound ?? "", reason: row.reason,
}));

export function Augmentations({ selected }: { selected: string | null }) {
  const augmentations = useTable("augmentations");
  const filter = useFilter(augmentations.rows, texts);
  const chosen = augmentations.rows.find((row) => row.key === selected);
  const jobs = augmentations.rows.filter((row) => row.job !== null).length;
  return (
    <Panel
      name="augmentations" title="Augmentations" table={augmentations} selected={chosen ? selected : null}
      summary={`${plural(augmentations.rows.length, "augmented device")} · ${plural(jobs, "running job")}`}
      tools={<FilterBox filter={filter} all={augmentations.rows.length} columns="name, namespace, device, state, bound, reason" />}
      list={
        <DataTable
          label="Augmentations" columns={COLUMNS} rows={filter.rows} first={{ column: "name", descending: false }}
          link={(row) => href("augmentations", row.key)} selected={selected}
          empty={augmentations.loaded ? "No device is augmented." : ""} under={(row) => `${row.device} · ${row.unit}`}
        />
      }
      detail={chosen && <Augmented row={chosen} />}
    />
  );
}

function Augmented({ row }: { row: AugmentationRow }) {
  return (
    <>
      <h2>{row.namespace ? `${row.namespace}/${row.name}` : row.name}</h2>
      {row.reason !== "" && <p class="lead">{row.reason}</p>}
      <Facts facts={[
        ["State", <State state={row.state} />],
        ["Device", row.device],
        ["Slice", row.unit],
        ["Storage", <Memory label="Storage in use" used={row.used_bytes} all={row.storage_bytes} />],
      ]} />
      <Part title={row.job === null ? "No job runs" : `Job ${row.job}`}>
        {row.job !== null && <Rates row={row} />}
      </Part>
      <Command command={row.command} />
    </>
  );
}

function Rates({ row }: { row: AugmentationRow }) {
  const largest = Math.max(row.device_rate ?? 0, row.server_rate ?? 0, 1e-9);
  const sides: [string, number | null][] = [["Device", row.device_rate], ["Server", row.server_rate]];
  return (
    <table class="small">
      <thead><tr><th scope="col">Side</th><th scope="col">Inputs per second</th></tr></thead>
      <tbody>
        {sides.map(([name, value]) => (
          <tr key={name}>
            <td>{name}</td>
            <td><Meter label={`${name}'s rate`} value={value === null ? null : value / largest} text={rate(value)} /></td>
          </tr>
        ))}
        <tr><td>Done</td><td><Meter label="Progress" value={row.progress} text={percent(row.progress)} /></td></tr>
        <tr><td>Bound by</td><td>{row.bound ?? "unknown"}</td></tr>
      </tbody>
    </table>
  );
}
