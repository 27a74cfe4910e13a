/** A pipeline as a picture; the tables below it say the same in words. */
import type { PipelineDetail } from "../api/types";
import { bytes, figure } from "../state/format";
import { BOX, layOut } from "../state/graph";

export function Graph({ detail }: { detail: PipelineDetail }) {
  const { boxes, lines, width, height } = layOut(detail.stages, detail.links);
  const size = { width: `${width}px`, height: `${height}px` };
  return (
    <div class="scroll graph" tabIndex={0} role="region" aria-label="The graph of stages; its tables follow">
      <div class="canvasbox" style={size} aria-hidden="true">
        <svg width={width} height={height}>
          {lines.map(({ link, path }) => <path key={`${link.from} ${link.to}`} d={path} class={link.cut ? "cut" : ""} />)}
        </svg>
        {lines.filter(({ link }) => link.cut).map(({ link, x, y }) => (
          <span key={`${link.from} ${link.to}`} class="cutlabel" style={{ left: `${x}px`, top: `${y}px` }}>
            {link.bytes_per_second === null ? "cut" : `${bytes(link.bytes_per_second)}/s`}
          </span>
        ))}
        {boxes.map(({ stage, x, y }) => (
          <div
            key={stage.name} class={`stage ${stage.bottleneck ? "bottleneck" : ""}`}
            style={{ left: `${x}px`, top: `${y}px`, width: `${BOX.width}px`, height: `${BOX.height}px` }}
          >
            <b>{stage.name}{stage.replicas > 1 ? ` × ${stage.replicas}` : ""}</b>
            <span>{stage.host}</span>
            <span class="rate">{stage.bottleneck ? "bottleneck " : ""}{figure(stage.rate)}/s</span>
          </div>
        ))}
      </div>
    </div>
  );
}
