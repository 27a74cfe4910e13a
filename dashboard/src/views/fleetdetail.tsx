/** One accelerator with its last ten minutes, or one node with its accelerators. */
import type { DeviceRow, DeviceSeries, NodeRow } from "../api/types";
import { inPath } from "../api/client";
import { bytes, cores, percent, plural, withUnit } from "../state/format";
import { href } from "../state/route";
import { TimeChart } from "../ui/chart";
import { Command } from "../ui/command";
import { ActionButton } from "../ui/dialog";
import { useFetched } from "../ui/fetched";
import { Age, Facts, Memory, Part, State } from "../ui/parts";
import { Holders } from "./holders";

export function DeviceDetail({ device }: { device: DeviceRow }) {
  const path = `devices/${inPath(device.key)}/series?seconds=600`;
  const { data, error } = useFetched<DeviceSeries>(path, null, 5);
  return (
    <>
      <h2>{device.name || device.model}</h2>
      {device.reason !== "" && <p class="lead">{device.reason}</p>}
      <Facts facts={[
        ["State", <State state={device.state} />],
        ["Node", <a href={href("fleet", device.node)}>{device.node}</a>],
        ["Device", <code>{device.device}</code>],
        ["Model", <code>{device.model}</code>],
        ["Memory", <Memory label="Memory in use" used={device.memory_used_bytes} all={device.memory_bytes} />],
        ["Requested", bytes(device.requested_bytes)],
        ["Predicted", bytes(device.predicted_bytes)],
        ["Measured", device.measured === null ? "never" : <><Age since={device.measured} /> ago</>],
      ]} />
      <Part title={`Held by ${plural(device.shares.length, "workload")}`}><Holders device={device} /></Part>
      <Part title="Last ten minutes">
        {error !== null && <p class="problem">{error}</p>}
        {data !== null && <Charts series={data} all={device.memory_bytes} />}
      </Part>
      {data !== null && <Command command={data.command} />}
    </>
  );
}

function Charts({ series, all }: { series: DeviceSeries; all: number | null }) {
  const { times } = series;
  if (times.length === 0) return <p class="quiet">Nothing was measured.</p>;
  if (times.length === 1) return <p class="quiet">Measured once; a line needs two values.</p>;
  return (
    <div class="charts">
      <TimeChart title="Utilisation" times={times} values={series.utilisation} format={percent} top={1} />
      <TimeChart title="Memory in use" times={times} values={series.memory_used_bytes} format={bytes} top={all} />
      <TimeChart title="Power" times={times} values={series.power_watts} format={(value) => withUnit(value, "W")} />
      <TimeChart title="Temperature" times={times} values={series.temperature_celsius} format={(value) => withUnit(value, "°C")} />
    </div>
  );
}

export function NodeDetail({ node, devices }: { node: NodeRow; devices: readonly DeviceRow[] }) {
  const own = devices.filter((device) => device.node === node.name);
  return (
    <>
      <h2>{node.name}</h2>
      {node.reason !== "" && <p class="lead">{node.reason}</p>}
      <Facts facts={[
        ["State", <State state={node.state} />],
        ["Agent", <State state={node.agent} />],
        ["Architecture", node.arch],
        ["Cores", `${cores(node.cpu_used_milli)} of ${cores(node.cpu_milli)} in use`],
        ["Memory", <Memory label="Memory in use" used={node.memory_used_bytes} all={node.memory_bytes} />],
        ["Taints", node.taints.length === 0 ? "none" : node.taints.map((taint) => <code key={taint}>{taint} </code>)],
      ]} />
      <Part title={plural(own.length, "accelerator")}>
        <table class="small">
          <thead><tr><th scope="col">Accelerator</th><th scope="col">State</th><th scope="col" class="figures">Memory</th></tr></thead>
          <tbody>
            {own.map((device) => (
              <tr key={device.key}>
                <td><a href={href("fleet", device.key)}>{device.name || device.model}</a></td>
                <td><State state={device.state} title={device.reason} /></td>
                <td class="figures"><Memory label="Memory in use" used={device.memory_used_bytes} all={device.memory_bytes} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </Part>
      <ActionButton action="drain" body={{ node: node.name }} label="Drain the node">
        <p>Every pod of <strong>{node.name}</strong> is evicted, and no new one is placed there until it is uncordoned.</p>
      </ActionButton>
    </>
  );
}
