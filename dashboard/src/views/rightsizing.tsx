/** Workloads that ask for too much or too little, with what the right size saves. */
import { useMemo } from "preact/hooks";
import type { ProposalRow } from "../api/types";
import { textsCache } from "../state/filter";
import { bytes, plural, withUnit } from "../state/format";
import { href } from "../state/route";
import { Command } from "../ui/command";
import { useTable } from "../ui/context";
import { type Column, DataTable } from "../ui/datatable";
import { ActionButton } from "../ui/dialog";
import { FilterBox, useFilter } from "../ui/filterbox";
import { Panel } from "../ui/panel";
import { Facts } from "../ui/parts";

const COLUMNS: Column<ProposalRow>[] = [
  { id: "workload", label: "Workload", cell: (row) => row.workload, sort: (row) => row.workload },
  { id: "what", label: "What", cell: (row) => row.what, sort: (row) => row.what, width: 12, from: "tablet" },
  { id: "now", label: "Now", figures: true, cell: (row) => bytes(row.now_bytes), sort: (row) => row.now_bytes, width: 6, from: "phone" },
  { id: "proposed", label: "Proposed", figures: true, cell: (row) => bytes(row.proposed_bytes), sort: (row) => row.proposed_bytes, width: 6.5, from: "phone" },
  { id: "saves", label: "Saves", figures: true, cell: (row) => bytes(row.saves_bytes), sort: (row) => row.saves_bytes, width: 6.5 },
  { id: "risk", label: "Risk", figures: true, cell: (row) => risk(row), sort: (row) => row.risk, width: 5, from: "phone" },
];
const risk = (row: ProposalRow) => withUnit(row.risk === null ? null : row.risk * 100, "%");
const texts = textsCache<ProposalRow>((row) => ({ workload: row.workload, what: row.what }));

export function RightSizing({ selected }: { selected: string | null }) {
  const proposals = useTable("proposals");
  const filter = useFilter(proposals.rows, texts);
  const saved = useMemo(() => proposals.rows.reduce((sum, row) => sum + row.saves_bytes, 0), [proposals.rows]);
  const chosen = proposals.rows.find((row) => row.key === selected);
  return (
    <Panel
      name="rightsizing" title="Right-sizing" table={proposals} selected={chosen ? selected : null}
      summary={`${plural(proposals.rows.length, "proposal")} · ${bytes(saved)} to give back`}
      tools={<FilterBox filter={filter} all={proposals.rows.length} columns="workload, what" />}
      list={
        <DataTable
          label="Proposals" columns={COLUMNS} rows={filter.rows} first={{ column: "saves", descending: true }}
          link={(row) => href("rightsizing", row.key)} selected={selected}
          empty={proposals.loaded ? "Every measured workload has the right size." : ""}
          under={(row) => `${row.what}: ${bytes(row.now_bytes)} → ${bytes(row.proposed_bytes)}`}
        />
      }
      detail={chosen && <Proposal proposal={chosen} />}
    />
  );
}

function Proposal({ proposal }: { proposal: ProposalRow }) {
  const largest = Math.max(proposal.now_bytes, proposal.proposed_bytes, 1);
  return (
    <>
      <h2>{proposal.workload}</h2>
      <p class="lead">{proposal.what}</p>
      <div class="compare" aria-hidden="true">
        <span class="track"><span class="fill" style={{ width: `${(proposal.now_bytes / largest) * 100}%` }} /></span>
        <span class="track"><span class="fill better" style={{ width: `${(proposal.proposed_bytes / largest) * 100}%` }} /></span>
      </div>
      <Facts facts={[
        ["Now", bytes(proposal.now_bytes)],
        ["Proposed", bytes(proposal.proposed_bytes)],
        ["Saves", bytes(proposal.saves_bytes)],
        ["Risk of more", proposal.risk === null ? "unknown" : risk(proposal)],
      ]} />
      <ActionButton action="rightsize" body={{ proposal: proposal.key }} label="Set the proposed size">
        <p><strong>{proposal.workload}</strong>: {proposal.what} from {bytes(proposal.now_bytes)} to {bytes(proposal.proposed_bytes)}.</p>
        <p>Pods of the workload may be started again.</p>
      </ActionButton>
      <Command command={proposal.command} />
    </>
  );
}
