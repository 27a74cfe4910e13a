/** Why one workload waits, and the smallest change that would fit. */
import { inPath } from "../api/client";
import type { Reason, Why, WorkloadRow } from "../api/types";
import { href } from "../state/route";
import { countedOf, headline } from "../state/why";
import { Command } from "../ui/command";
import { ActionButton } from "../ui/dialog";
import { useFetched } from "../ui/fetched";
import { Age, Facts, Part, State } from "../ui/parts";
import { requestText } from "./request";

export function WhyDetail({ workload }: { workload: WorkloadRow }) {
  const { data, error } = useFetched<Why>(`workloads/${inPath(workload.key)}/why`, workload, 5);
  return (
    <article class="why">
      <h2>{workload.namespace ? `${workload.namespace}/${workload.name}` : workload.name}</h2>
      <p class="line">
        <State state={workload.state} />{workload.since !== null && <> for <Age since={workload.since} /></>}
        {workload.place !== null && <> · place {workload.place} in the queue</>}
      </p>
      {data === null && error === null && <p class="quiet" role="status">Asking why…</p>}
      {error !== null && <p class="problem" role="status">{error}</p>}
      {data !== null && <Answer why={data} />}
      <Part title="What it asks for"><Request workload={workload} /></Part>
      {data !== null && (
        <p class="quiet decided">{data.source}, <Age since={data.decided} /> ago</p>
      )}
      <ActionButton action="cancel" body={{ workload: workload.key }} label={workload.kind === "pod" ? "Delete the pod" : "Cancel the job"}>
        <p><strong>{workload.key}</strong> is ended{workload.state === "running" ? "; what it has not saved is lost" : ""}.</p>
      </ActionButton>
      {data !== null && <Command command={data.command} />}
    </article>
  );
}

function Answer({ why }: { why: Why }) {
  const smallest = why.changes.filter((change) => change.smallest);
  const others = why.changes.filter((change) => !change.smallest);
  const text = headline(why);
  return (
    <>
      {text !== "" && <p class="lead" data-role="summary">{text}</p>}
      {smallest.length > 0 && (
        <section class="smallest" data-role="smallest">
          <h3>The smallest change that would fit</h3>
          {smallest.map((change) => <p key={change.text}>{change.text}</p>)}
        </section>
      )}
      {!why.fits && why.changes.length === 0 && why.reasons.length > 0 && (
        <p class="quiet" data-role="smallest">No single change is known that would make it fit.</p>
      )}
      {why.reasons.length > 0 && <Part title="Where it does not fit"><Reasons why={why} /></Part>}
      {others.length > 0 && (
        <Part title={smallest.length > 0 ? "What else would help" : "What would help"}>
          <ul class="plain">{others.map((change) => <li key={change.text}>{change.text}</li>)}</ul>
        </Part>
      )}
      {why.notes.length > 0 && (
        <Part title="Notes"><ul class="plain">{why.notes.map((note) => <li key={note}>{note}</li>)}</ul></Part>
      )}
    </>
  );
}

function Reasons({ why }: { why: Why }) {
  return (
    <table class="small reasons">
      <thead>
        <tr><th scope="col" class="figures">{countedOf(why)}</th><th scope="col">Reason</th><th scope="col">Check</th></tr>
      </thead>
      <tbody>
        {why.reasons.map((reason, index) => (
          <tr key={index}>
            <td class="figures">{reason.count > 0 && <Counted reason={reason} />}</td>
            <td>{reason.text.split("; then ")[0]}{reason.example !== null && <span class="under">for example {reason.example}</span>}</td>
            <td><code>{reason.filter}</code></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Counted({ reason }: { reason: Reason }) {
  return (
    <>
      {reason.count} of {reason.of}
      <span class="track" aria-hidden="true">
        <span class="fill" style={{ width: `${(reason.of ? reason.count / reason.of : 0) * 100}%` }} />
      </span>
    </>
  );
}

function Request({ workload }: { workload: WorkloadRow }) {
  const facts: [string, preact.ComponentChildren][] = [["Request", requestText(workload.requested)]];
  if (workload.model !== null) facts.push(["Model", <a href={href("predictions", workload.model)}>{workload.model}</a>]);
  facts.push(["Priority", workload.priority]);
  if (workload.gang !== null) facts.push(["Gang", workload.gang]);
  if (workload.node !== null) facts.push(["Node", <a href={href("fleet", workload.node)}>{workload.node}</a>]);
  if (workload.devices.length > 0) {
    facts.push(["Accelerators", workload.devices.map((key) => <a key={key} href={href("shares", key)}>{key} </a>)]);
  }
  return <Facts facts={facts} />;
}
