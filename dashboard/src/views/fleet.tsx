/** Every node and accelerator: state, reason, and what is measured now. */
import { useMemo } from "preact/hooks";
import type { DeviceRow, NodeRow } from "../api/types";
import { textsCache } from "../state/filter";
import { bytes, cores, plural, UNKNOWN, withUnit } from "../state/format";
import { href } from "../state/route";
import { useTable } from "../ui/context";
import { type Column, DataTable } from "../ui/datatable";
import { FilterBox, useFilter } from "../ui/filterbox";
import { Panel } from "../ui/panel";
import { Age, Memory, Meter, State } from "../ui/parts";
import { Segments, useSegment } from "../ui/segments";
import { DeviceDetail, NodeDetail } from "./fleetdetail";

const DEVICES: Column<DeviceRow>[] = [
  { id: "name", label: "Accelerator", cell: (row) => row.name || row.model, sort: (row) => row.name || row.model, width: 11 },
  { id: "node", label: "Node", cell: (row) => row.node, sort: (row) => row.node, width: 8, from: "phone" },
  { id: "kind", label: "Kind", cell: (row) => row.kind, sort: (row) => row.kind, width: 4, from: "desk" },
  { id: "state", label: "State", cell: (row) => <State state={row.state} title={row.reason} />, sort: (row) => row.state, width: 6.5 },
  {
    id: "memory", label: "Memory", figures: true, width: 14, from: "phone", sort: (row) => row.memory_used_bytes,
    cell: (row) => <Memory label="Memory in use" used={row.memory_used_bytes} all={row.memory_bytes} />,
  },
  {
    id: "use", label: "Busy", figures: true, width: 6, sort: (row) => row.utilisation,
    cell: (row) => <Meter label="Utilisation" value={row.utilisation} />,
  },
  { id: "power", label: "Power", figures: true, width: 5, from: "tablet", cell: (row) => withUnit(row.power_watts, "W"), sort: (row) => row.power_watts },
  { id: "temperature", label: "Temp.", figures: true, width: 5, from: "tablet", cell: (row) => withUnit(row.temperature_celsius, "°C"), sort: (row) => row.temperature_celsius },
  { id: "measured", label: "Measured", figures: true, width: 5.5, from: "tablet", cell: (row) => <Age since={row.measured} />, sort: (row) => row.measured },
  { id: "reason", label: "Reason", cell: (row) => row.reason, from: "desk" },
];

const NODES: Column<NodeRow>[] = [
  { id: "name", label: "Node", cell: (row) => row.name, sort: (row) => row.name, width: 10 },
  { id: "state", label: "State", cell: (row) => <State state={row.state} title={row.reason} />, sort: (row) => row.state, width: 7.5 },
  { id: "agent", label: "Agent", cell: (row) => <State state={row.agent} />, sort: (row) => row.agent, width: 6.5, from: "tablet" },
  { id: "devices", label: "Accel.", figures: true, cell: (row) => row.devices, sort: (row) => row.devices, width: 5 },
  {
    id: "cpu", label: "Cores", figures: true, width: 9, from: "phone", sort: (row) => row.cpu_used_milli,
    cell: (row) => `${cores(row.cpu_used_milli)} / ${cores(row.cpu_milli)}`,
  },
  {
    id: "memory", label: "Memory", figures: true, width: 14, from: "phone", sort: (row) => row.memory_used_bytes,
    cell: (row) => <Memory label="Memory in use" used={row.memory_used_bytes} all={row.memory_bytes} />,
  },
  { id: "arch", label: "Arch", cell: (row) => row.arch, sort: (row) => row.arch, width: 5, from: "desk" },
  { id: "reason", label: "Reason", cell: (row) => row.reason || row.taints.join(", "), from: "tablet" },
];

const deviceTexts = textsCache<DeviceRow>((row) => ({
  node: row.node, name: `${row.name} ${row.model}`, kind: row.kind, state: row.state, reason: row.reason,
}));
const nodeTexts = textsCache<NodeRow>((row) => ({
  node: row.name, state: row.state, agent: row.agent, arch: row.arch, reason: row.reason, taint: row.taints.join(" "),
}));

export function Fleet({ selected }: { selected: string | null }) {
  const nodes = useTable("nodes");
  const devices = useTable("devices");
  const [shown, show] = useSegment(selected !== null && !selected.includes("/") ? "nodes" : "accelerators");
  const deviceFilter = useFilter(devices.rows, deviceTexts);
  const nodeFilter = useFilter(nodes.rows, nodeTexts);
  const byNodes = shown === "nodes";
  const device = devices.rows.find((row) => row.key === selected);
  const node = nodes.rows.find((row) => row.key === selected);
  return (
    <Panel
      name="fleet" title="Fleet" summary={<Totals nodes={nodes.rows} devices={devices.rows} />}
      table={byNodes ? nodes : devices} selected={device || node ? selected : null} layout="wide"
      tools={
        <>
          <Segments label="Show" value={shown} onChange={show} options={["accelerators", "nodes"]} />
          {byNodes
            ? <FilterBox key="n" filter={nodeFilter} all={nodes.rows.length} columns="node, state, agent, arch, reason, taint" />
            : <FilterBox key="d" filter={deviceFilter} all={devices.rows.length} columns="node, name, kind, state, reason" />}
        </>
      }
      list={byNodes ? (
        <DataTable
          key="nodes" label="Nodes" columns={NODES} rows={nodeFilter.rows} first={{ column: "name", descending: false }}
          link={(row) => href("fleet", row.key)} selected={selected} empty={nodes.loaded ? "No node." : ""}
          under={(row) => `${row.arch} · ${bytes(row.memory_used_bytes)} / ${bytes(row.memory_bytes)}`}
        />
      ) : (
        <DataTable
          key="devices" label="Accelerators" columns={DEVICES} rows={deviceFilter.rows}
          first={{ column: "node", descending: false }} link={(row) => href("fleet", row.key)} selected={selected}
          empty={devices.loaded ? "No accelerator." : ""}
          under={(row) => `${row.node} · ${bytes(row.memory_used_bytes)} / ${bytes(row.memory_bytes)}`}
        />
      )}
      detail={device ? <DeviceDetail device={device} /> : node ? <NodeDetail node={node} devices={devices.rows} /> : undefined}
    />
  );
}

function Totals({ nodes, devices }: { nodes: readonly NodeRow[]; devices: readonly DeviceRow[] }) {
  return useMemo(() => {
    const ready = nodes.filter((node) => node.state === "ready").length;
    const healthy = devices.filter((device) => device.state === "healthy").length;
    const measured = devices.filter((device) => device.memory_used_bytes !== null && device.memory_bytes !== null);
    const used = measured.reduce((sum, device) => sum + (device.memory_used_bytes ?? 0), 0);
    const all = measured.reduce((sum, device) => sum + (device.memory_bytes ?? 0), 0);
    const powers = devices.filter((device) => device.power_watts !== null);
    const power = powers.reduce((sum, device) => sum + (device.power_watts ?? 0), 0);
    return (
      <>
        {ready} of {plural(nodes.length, "node")} ready · {healthy} of {plural(devices.length, "accelerator")} healthy ·{" "}
        {measured.length > 0 ? `${bytes(used)} of ${bytes(all)} in use` : `memory in use ${UNKNOWN}`}
        {powers.length > 0 && ` · ${withUnit(power, "W")}`}
      </>
    );
  }, [nodes, devices]);
}
