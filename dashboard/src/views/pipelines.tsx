/** Pipelines: the graph with its cuts, rates, the bottleneck, drops, and the way of a frame. */
import { inPath } from "../api/client";
import type { PipelineDetail, PipelineRow } from "../api/types";
import { textsCache } from "../state/filter";
import { bytes, figure, latency, percent, plural, withUnit } from "../state/format";
import { href } from "../state/route";
import { Command } from "../ui/command";
import { useTable } from "../ui/context";
import { type Column, DataTable } from "../ui/datatable";
import { useFetched } from "../ui/fetched";
import { FilterBox, useFilter } from "../ui/filterbox";
import { Panel } from "../ui/panel";
import { Part, State } from "../ui/parts";
import { Frames } from "./frame";
import { Graph } from "./graph";

const COLUMNS: Column<PipelineRow>[] = [
  { id: "name", label: "Pipeline", cell: (row) => row.name, sort: (row) => row.name, width: 10 },
  { id: "state", label: "State", cell: (row) => <State state={row.state} title={row.reason} />, sort: (row) => row.state, width: 7 },
  { id: "rate", label: "Rate", figures: true, cell: (row) => withUnit(row.frames_per_second, "/s"), sort: (row) => row.frames_per_second, width: 6, from: "phone" },
  { id: "latency", label: "Latency", figures: true, cell: (row) => latency(row.latency_seconds), sort: (row) => row.latency_seconds, width: 6, from: "phone" },
  { id: "dropped", label: "Dropped", figures: true, cell: (row) => figure(row.dropped), sort: (row) => row.dropped, width: 6, from: "tablet" },
  { id: "bottleneck", label: "Bottleneck", cell: (row) => row.bottleneck ?? "", sort: (row) => row.bottleneck, width: 8, from: "tablet" },
  { id: "reason", label: "Reason", cell: (row) => row.reason, from: "desk" },
];
const texts = textsCache<PipelineRow>((row) => ({
  name: row.name, namespace: row.namespace, state: row.state, reason: row.reason, bottleneck: row.bottleneck ?? "",
}));

export function Pipelines({ selected }: { selected: string | null }) {
  const pipelines = useTable("pipelines");
  const filter = useFilter(pipelines.rows, texts);
  const chosen = pipelines.rows.find((row) => row.key === selected);
  return (
    <Panel
      name="pipelines" title="Pipelines" table={pipelines} selected={chosen ? selected : null} layout="narrow"
      summary={plural(pipelines.rows.length, "pipeline")}
      tools={<FilterBox filter={filter} all={pipelines.rows.length} columns="name, namespace, state, reason, bottleneck" />}
      list={
        <DataTable
          label="Pipelines" columns={COLUMNS} rows={filter.rows} first={{ column: "name", descending: false }}
          link={(row) => href("pipelines", row.key)} selected={selected}
          empty={pipelines.loaded ? "No pipeline runs." : ""} under={(row) => row.reason || row.namespace}
        />
      }
      detail={chosen && <Detail row={chosen} />}
    />
  );
}

function Detail({ row }: { row: PipelineRow }) {
  const { data, error } = useFetched<PipelineDetail>(`pipelines/${inPath(row.key)}`, row, 5);
  return (
    <>
      <h2>{row.namespace ? `${row.namespace}/${row.name}` : row.name}</h2>
      <p class="line"><State state={row.state} /> · {withUnit(row.frames_per_second, "frames/s")} · {latency(row.latency_seconds)} · {figure(row.dropped)} dropped</p>
      {error !== null && <p class="problem" role="status">{error}</p>}
      {data !== null && (
        <>
          {data.reasons.map((reason) => <p class="lead" key={reason}>{reason}</p>)}
          <Graph detail={data} />
          <Part title="Stages"><Stages detail={data} /></Part>
          <Part title="Links"><Links detail={data} /></Part>
          <Frames detail={data} />
          <Command command={data.command} />
        </>
      )}
    </>
  );
}

function Stages({ detail }: { detail: PipelineDetail }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Stages as a table">
      <table class="small">
        <thead>
          <tr>
            <th scope="col">Stage</th><th scope="col">Host</th><th scope="col" class="figures">Replicas</th><th scope="col" class="figures">Rate</th>
            <th scope="col" class="figures">Busy</th><th scope="col" class="figures">Queue</th><th scope="col" class="figures">Dropped</th>
          </tr>
        </thead>
        <tbody>
          {detail.stages.map((stage) => (
            <tr key={stage.name}>
              <td>{stage.name}{stage.bottleneck && <b class="mark"> bottleneck</b>}</td>
              <td>{stage.host}</td>
              <td class="figures">{stage.replicas}</td>
              <td class="figures">{withUnit(stage.rate, "/s")}</td>
              <td class="figures">{percent(stage.busy)}</td>
              <td class="figures">{figure(stage.queue)}</td>
              <td class="figures">{figure(stage.dropped)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Links({ detail }: { detail: PipelineDetail }) {
  return (
    <table class="small">
      <thead>
        <tr><th scope="col">From</th><th scope="col">To</th><th scope="col">Between hosts</th><th scope="col" class="figures">Bytes</th><th scope="col" class="figures">Dropped</th></tr>
      </thead>
      <tbody>
        {detail.links.map((link) => (
          <tr key={`${link.from} ${link.to}`}>
            <td>{link.from}</td>
            <td>{link.to}</td>
            <td>{link.cut ? "cut" : "no"}</td>
            <td class="figures">{link.bytes_per_second === null ? "–" : `${bytes(link.bytes_per_second)}/s`}</td>
            <td class="figures">{figure(link.dropped)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
