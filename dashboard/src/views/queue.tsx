/** Workloads, the waiting ones first, and why each waits: the question that people ask most, on one screen. */
import { useMemo, useRef, useState } from "preact/hooks";
import type { WorkloadRow } from "../api/types";
import { textsCache } from "../state/filter";
import { plural } from "../state/format";
import { href } from "../state/route";
import { sortRows } from "../state/sort";
import { brief, groupWhy, shapeOf, type WhyGroup } from "../state/why";
import { useMedia, useTable } from "../ui/context";
import { type Column, DataTable } from "../ui/datatable";
import { FilterBox, useFilter } from "../ui/filterbox";
import { Panel } from "../ui/panel";
import { Age, State } from "../ui/parts";
import { Segments, useSegment } from "../ui/segments";
import { requestText } from "./request";
import { WhyDetail } from "./why";

const RANK = { waiting: 0, starting: 1, running: 2, failed: 3, ended: 4 } as const;

const COLUMNS: Column<WorkloadRow>[] = [
  { id: "name", label: "Workload", cell: (row) => row.name, sort: (row) => row.name, width: 11 },
  { id: "namespace", label: "Namespace", cell: (row) => row.namespace, sort: (row) => row.namespace, width: 8, from: "desk" },
  { id: "place", label: "Place", figures: true, cell: (row) => row.place ?? "", sort: queueOrder, width: 4.5, from: "tablet" },
  { id: "state", label: "State", cell: (row) => <State state={row.state} />, sort: (row) => RANK[row.state], width: 6.5 },
  { id: "since", label: "For", figures: true, cell: (row) => <Age since={row.since} />, sort: (row) => (row.since === null ? null : -row.since), width: 5.5, from: "phone" },
  { id: "asks", label: "Asks for", cell: (row) => requestText(row.requested), width: 13, from: "desk" },
  { id: "why", label: "Why it waits, or where it runs", cell: whyOrWhere, from: "phone" },
];

function whyOrWhere(row: WorkloadRow) {
  return row.why === "" ? (row.node ?? "") : <span title={row.why}>{brief(row.why)}</span>;
}

/** Where all wait, their state says nothing. */
const WAITING = COLUMNS.filter((column) => column.id !== "state");

/** The waiting ones by their place, then the others by their state. */
function queueOrder(row: WorkloadRow): number {
  return RANK[row.state] * 1e9 + (row.place ?? 1e8);
}

const texts = textsCache<WorkloadRow>((row) => ({
  name: row.name, namespace: row.namespace, state: row.state, node: row.node ?? "", why: row.why,
  model: row.model ?? "", gang: row.gang ?? "",
}));

export function Queue({ selected }: { selected: string | null }) {
  const workloads = useTable("workloads");
  const [shown, show] = useSegment("waiting");
  const [group, setGroup] = useState<string | null>(null);
  const waiting = useMemo(() => workloads.rows.filter((row) => row.state === "waiting"), [workloads.rows]);
  const groups = useMemo(() => groupWhy(waiting).filter(({ count }) => count > 1 && count < waiting.length), [waiting]);
  const chosen = shown === "waiting" ? waiting : workloads.rows;
  const inGroup = useMemo(
    () => (group === null || shown !== "waiting" ? chosen : chosen.filter((row) => shapeOf(row.why) === group)),
    [chosen, group, shown],
  );
  const filter = useFilter(inGroup, texts);
  const wide = useMedia("(min-width: 1001px)");
  const own = useFirst(wide && selected === null, inGroup);
  const workload = workloads.rows.find((row) => row.key === (selected ?? own));
  return (
    <Panel
      name="queue" title="Queue" table={workloads} selected={workload?.key ?? null} closable={!wide}
      summary={<Summary waiting={waiting.length} all={workloads.rows} />}
      tools={
        <>
          <Segments label="Show" value={shown} onChange={show} options={["waiting", "all"]} />
          <FilterBox filter={filter} all={inGroup.length} columns="name, namespace, state, node, why, model, gang" />
        </>
      }
      list={
        <>
          {shown === "waiting" && groups.length > 0 && <Groups groups={groups} chosen={group} onChoose={setGroup} />}
          <DataTable
            label="Workloads" columns={shown === "waiting" ? WAITING : COLUMNS} rows={filter.rows} first={{ column: "place", descending: false }}
            link={(row) => href("queue", row.key)} selected={workload?.key ?? null}
            empty={workloads.loaded ? (filter.text === "" ? "Nothing waits." : "No workload has these words.") : ""}
            under={whyOrWhere}
          />
        </>
      }
      detail={workload && <WhyDetail workload={workload} />}
    />
  );
}

/** Where nothing is chosen, show the first that waits, and stay with it while it waits. */
function useFirst(wanted: boolean, rows: readonly WorkloadRow[]): string | null {
  const shown = useRef<string | null>(null);
  if (!wanted) shown.current = null;
  else if (!rows.some((row) => row.key === shown.current)) {
    shown.current = sortRows(rows, queueOrder, false)[0]?.key ?? null;
  }
  return shown.current;
}

function Summary({ waiting, all }: { waiting: number; all: readonly WorkloadRow[] }) {
  const running = all.filter((row) => row.state === "running").length;
  const failed = all.filter((row) => row.state === "failed").length;
  return <>{waiting} waiting · {running} running{failed > 0 && ` · ${failed} failed`} · {plural(all.length, "workload")}</>;
}

interface GroupsProps { groups: WhyGroup[]; chosen: string | null; onChoose(group: string | null): void }

/** The reasons with how many wait for each: a click leaves only those. */
function Groups({ groups, chosen, onChoose }: GroupsProps) {
  return (
    <div class="groups" role="group" aria-label="Reasons">
      {groups.slice(0, 5).map((group) => (
        <button
          key={group.shape} type="button" aria-pressed={group.shape === chosen} title={group.example}
          onClick={() => onChoose(group.shape === chosen ? null : group.shape)}
        >
          <b>{group.count}</b> <span>{group.example}</span>
        </button>
      ))}
      {groups.length > 5 && <span class="quiet">+{groups.length - 5}</span>}
    </div>
  );
}
