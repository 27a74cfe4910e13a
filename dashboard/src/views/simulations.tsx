/** Runs of the simulator compared: their figures in one table, and two of them as lines. */
import { useMemo, useState } from "preact/hooks";
import { inPath } from "../api/client";
import type { SimulationDetail, SimulationRow } from "../api/types";
import { figuresOf } from "../state/compare";
import { textsCache } from "../state/filter";
import { age, figure, plural, withUnit } from "../state/format";
import { href } from "../state/route";
import { TimeChart } from "../ui/chart";
import { Command } from "../ui/command";
import { useTable } from "../ui/context";
import { type Column, DataTable } from "../ui/datatable";
import { useFetched } from "../ui/fetched";
import { FilterBox, useFilter } from "../ui/filterbox";
import { Panel } from "../ui/panel";
import { Age, Part } from "../ui/parts";
import { Choice } from "../ui/segments";

const texts = textsCache<SimulationRow>((row) => ({ name: row.name, policy: row.policy }));
const NONE = "no other";

/** Return the columns of runs: what each is, then every figure that any of them has. */
function columnsOf(runs: readonly SimulationRow[]): Column<SimulationRow>[] {
  return [
    { id: "name", label: "Run", cell: (row) => row.key, sort: (row) => row.key, width: 11 },
    { id: "policy", label: "Policy", cell: (row) => row.policy, sort: (row) => row.policy, width: 7 },
    { id: "started", label: "Age", figures: true, cell: (row) => <Age since={row.started} />, sort: (row) => row.started, width: 5, from: "desk" },
    { id: "size", label: "Nodes", figures: true, cell: (row) => figure(row.nodes), sort: (row) => row.nodes, width: 5, from: "desk" },
    { id: "jobs", label: "Jobs", figures: true, cell: (row) => figure(row.jobs), sort: (row) => row.jobs, width: 5, from: "tablet" },
    ...figuresOf(runs).map(({ name, unit, values }): Column<SimulationRow> => ({
      id: `figure ${name}`, label: name, figures: true, width: 9, from: "phone",
      cell: (row) => withUnit(values.get(row.key) ?? null, unit), sort: (row) => values.get(row.key) ?? null,
    })),
  ];
}

export function Simulations({ selected }: { selected: string | null }) {
  const runs = useTable("simulations");
  const filter = useFilter(runs.rows, texts);
  const columns = useMemo(() => columnsOf(runs.rows), [runs.rows]);
  const chosen = runs.rows.find((row) => row.key === selected);
  return (
    <Panel
      name="simulations" title="Simulations" table={runs} selected={chosen ? selected : null}
      summary={plural(runs.rows.length, "run")}
      tools={<FilterBox filter={filter} all={runs.rows.length} columns="name, policy" />}
      list={
        <DataTable
          label="Runs" columns={columns} rows={filter.rows} first={{ column: "name", descending: false }}
          link={(row) => href("simulations", row.key)} selected={selected}
          empty={runs.loaded ? "No run is kept." : ""} under={(row) => row.name}
        />
      }
      detail={chosen && <Run run={chosen} all={runs.rows} />}
    />
  );
}

function Run({ run, all }: { run: SimulationRow; all: readonly SimulationRow[] }) {
  const [other, compare] = useState(NONE);
  const own = useFetched<SimulationDetail>(`simulations/${inPath(run.key)}`, null, 3600);
  const second = useFetched<SimulationDetail>(other === NONE ? null : `simulations/${inPath(other)}`, null, 3600);
  const others = all.filter(({ key }) => key !== run.key).map(({ key }) => key);
  const with_ = all.find(({ key }) => key === other);
  return (
    <>
      <h2>{run.name}, {run.policy}</h2>
      <Choice label="Compared with" value={other} options={[NONE, ...others]} onChange={compare} />
      <Part title="Figures"><Figures runs={with_ ? [run, with_] : [run]} /></Part>
      {own.error !== null && <p class="problem" role="status">{own.error}</p>}
      {own.data !== null && <Lines own={own.data} other={second.data} />}
      {own.data !== null && <Command command={own.data.command} />}
    </>
  );
}

function Figures({ runs }: { runs: readonly SimulationRow[] }) {
  return (
    <table class="small">
      <thead>
        <tr>
          <th scope="col">Figure</th>
          {runs.map((run) => <th key={run.key} scope="col" class="figures">{run.policy}</th>)}
          {runs.length === 2 && <th scope="col" class="figures">Difference</th>}
        </tr>
      </thead>
      <tbody>
        {figuresOf(runs).map(({ name, unit, values }) => {
          const [first = null, second = null] = runs.map((run) => values.get(run.key) ?? null);
          const change = first !== null && second ? first / second - 1 : null;
          return (
            <tr key={name}>
              <th scope="row">{name}</th>
              {runs.map((run) => <td key={run.key} class="figures">{withUnit(values.get(run.key) ?? null, unit)}</td>)}
              {runs.length === 2 && <td class="figures">{change === null ? "–" : `${change > 0 ? "+" : "−"}${Math.abs(change * 100).toFixed(1)} %`}</td>}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Lines({ own, other }: { own: SimulationDetail; other: SimulationDetail | null }) {
  return (
    <div class="charts wide">
      {own.series.map((series) => {
        const twin = other?.series.find(({ name }) => name === series.name);
        const known = [...series.values, ...(twin?.values ?? [])].filter((value): value is number => value !== null);
        const shared = { at: age, format: (value: number | null) => withUnit(value, series.unit), top: Math.max(...known, 0) * 1.05 || 1 };
        return (
          <Part key={series.name} title={series.name}>
            <TimeChart title={own.key} times={own.times} values={series.values} {...shared} />
            {other && twin && <TimeChart title={other.key} times={other.times} values={twin.values} {...shared} />}
          </Part>
        );
      })}
    </div>
  );
}
