/** One frame on its way through a pipeline. */
import { useState } from "preact/hooks";
import { inPath } from "../api/client";
import type { Frame, PipelineDetail } from "../api/types";
import { latency } from "../state/format";
import { useFetched } from "../ui/fetched";
import { Part } from "../ui/parts";
import { Choice } from "../ui/segments";

export function Frames({ detail }: { detail: PipelineDetail }) {
  const [chosen, choose] = useState<string | null>(null);
  const ids = detail.frames.map(({ id }) => id);
  const id = chosen !== null && ids.includes(chosen) ? chosen : (ids[0] ?? null);
  const path = id === null ? null : `pipelines/${inPath(detail.key)}/frames/${inPath(id)}`;
  const { data, error } = useFetched<Frame>(path, null, 3600);
  return (
    <Part title="A frame's way">
      {id === null ? <p class="quiet">No frame was traced.</p> : <Choice label="Frame" value={id} options={ids} onChange={choose} />}
      {error !== null && <p class="problem">{error}</p>}
      {data !== null && <Waterfall frame={data} />}
    </Part>
  );
}

function Waterfall({ frame }: { frame: Frame }) {
  const from = Math.min(...frame.spans.map((span) => span.start));
  const to = Math.max(...frame.spans.map((span) => span.start + span.seconds));
  const all = Math.max(to - from, 1e-9);
  return (
    <table class="small waterfall">
      <caption>{latency(to - from)} from the first stage to the last</caption>
      <thead>
        <tr>
          <th scope="col">Stage</th><th scope="col">What</th><th scope="col" class="figures">From</th>
          <th scope="col" class="figures">Takes</th><th scope="col"><span class="offscreen">As a bar</span></th>
        </tr>
      </thead>
      <tbody>
        {frame.spans.map((span, index) => (
          <tr key={index}>
            <td>{span.stage}<span class="under">{span.host}</span></td>
            <td>{span.what}</td>
            <td class="figures">{latency(span.start - from)}</td>
            <td class="figures">{latency(span.seconds)}</td>
            <td class="way" aria-hidden="true">
              <span class={span.what} style={{ left: `${((span.start - from) / all) * 100}%`, width: `${(span.seconds / all) * 100}%` }} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
