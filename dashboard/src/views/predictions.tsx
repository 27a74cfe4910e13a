/** A model's predicted latency on every device, with how far it may be off. */
import { useMemo } from "preact/hooks";
import { inPath } from "../api/client";
import type { ModelDevice, ModelDevices, ModelRow } from "../api/types";
import { textsCache } from "../state/filter";
import { bytes, latency, plural, UNKNOWN, withUnit } from "../state/format";
import { href } from "../state/route";
import { sortRows } from "../state/sort";
import { type Axis, axisOf, position } from "../state/whiskers";
import { Command } from "../ui/command";
import { useMedia, useTable } from "../ui/context";
import { type Column, DataTable } from "../ui/datatable";
import { useFetched } from "../ui/fetched";
import { FilterBox, useFilter } from "../ui/filterbox";
import { Panel } from "../ui/panel";
import { State } from "../ui/parts";

const COLUMNS: Column<ModelRow>[] = [
  { id: "name", label: "Model", cell: (row) => row.name, sort: (row) => row.name },
  { id: "operators", label: "Operators", figures: true, cell: (row) => row.operators ?? UNKNOWN, sort: (row) => row.operators, width: 6 },
  { id: "source", label: "Known from", cell: (row) => row.source, sort: (row) => row.source, width: 9, from: "phone" },
];
const texts = textsCache<ModelRow>((row) => ({ name: row.name, source: row.source }));

export function Predictions({ selected }: { selected: string | null }) {
  const models = useTable("models");
  const filter = useFilter(models.rows, texts);
  const wide = useMedia("(min-width: 1001px)");
  const chosen = models.rows.find((row) => row.key === selected) ?? (wide ? filter.rows[0] : undefined);
  return (
    <Panel
      name="predictions" title="Predictions" table={models} selected={chosen?.key ?? null} layout="narrow" closable={!wide}
      summary={`${plural(models.rows.length, "model")} · latency on every device, with its p90`}
      tools={<FilterBox filter={filter} all={models.rows.length} columns="name, source" />}
      list={
        <DataTable
          label="Models" columns={COLUMNS} rows={filter.rows} first={{ column: "name", descending: false }}
          link={(row) => href("predictions", row.key)} selected={chosen?.key ?? null}
          empty={models.loaded ? "No model is known: give its file with --model, or apply a ModelProfile." : ""}
          under={(row) => row.source}
        />
      }
      detail={chosen && <Devices model={chosen} />}
    />
  );
}

function Devices({ model }: { model: ModelRow }) {
  const { data, error } = useFetched<ModelDevices>(`models/${inPath(model.key)}/devices`, model, 30);
  const rows = useMemo(() => sortRows(data?.rows ?? [], (row) => row.seconds, false), [data]);
  const axis = axisOf(rows);
  return (
    <>
      <h2>{model.name}</h2>
      {data === null && error === null && <p class="quiet" role="status">Predicting…</p>}
      {error !== null && <p class="problem" role="status">{error}</p>}
      {data !== null && <Whiskers rows={rows} axis={axis} />}
      {data !== null && <Command command={data.command} />}
    </>
  );
}

function Whiskers({ rows, axis }: { rows: readonly ModelDevice[]; axis: Axis | null }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Predicted latency by device">
      <table class="small whiskers">
        <thead>
          <tr>
            <th scope="col">Device</th>
            <th scope="col" class="figures">Latency</th>
            <th scope="col" class="figures">p90</th>
            <th scope="col" class="axis">{axis !== null && <Ticks axis={axis} />}</th>
            <th scope="col" class="extra">Confidence</th>
            <th scope="col" class="figures extra">Memory</th>
            <th scope="col" class="figures extra">Energy</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.key} ${row.runtime} ${row.precision}`}>
              <td>
                {row.name}
                <span class="under">
                  {[row.runtime, row.precision].filter(Boolean).join(" · ")}{row.fits ? "" : " · does not fit now"}
                  <span class="only-phone"> · {row.confidence}</span>
                </span>
                {row.seconds !== null && row.why !== "" && <span class="under">{row.why}</span>}
              </td>
              {row.seconds === null
                ? <td colSpan={3} class="unknown">Unknown: {row.why || "nothing is known of this device"}</td>
                : <Latency row={row} axis={axis as Axis} />}
              <td class="extra"><State state={row.confidence} title={row.why} /></td>
              <td class="figures extra">{bytes(row.memory_bytes)}</td>
              <td class="figures extra">{row.energy_joules === null ? UNKNOWN : withUnit(row.energy_joules, "J")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Ticks({ axis }: { axis: Axis }) {
  return (
    <span class="ticks">
      <span class="offscreen">Latency on a logarithmic axis</span>
      {axis.ticks.map((tick) => (
        <span key={tick} aria-hidden="true" style={{ left: `${position(axis, tick) * 100}%` }}>{latency(tick)}</span>
      ))}
    </span>
  );
}

function Latency({ row, axis }: { row: ModelDevice; axis: Axis }) {
  const seconds = row.seconds as number;
  const from = position(axis, row.low_seconds ?? seconds);
  const to = position(axis, row.p90_seconds ?? seconds);
  return (
    <>
      <td class="figures">{latency(seconds)}</td>
      <td class="figures">{latency(row.p90_seconds)}</td>
      <td class="axis" aria-hidden="true">
        <span class={`plot ${row.confidence}`} title={`${latency(row.low_seconds)} to ${latency(row.p90_seconds)}`}>
          {axis.ticks.map((tick) => <i key={tick} class="grid" style={{ left: `${position(axis, tick) * 100}%` }} />)}
          <i class="bar" style={{ left: `${from * 100}%`, width: `${(to - from) * 100}%` }} />
          <i class="dot" style={{ left: `${position(axis, seconds) * 100}%` }} />
        </span>
      </td>
    </>
  );
}
