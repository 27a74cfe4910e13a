/** Where the stages of a pipeline stand: each in the column after the last stage before it. Pure. */
import type { Link, Stage } from "../api/types";

export interface Box { stage: Stage; x: number; y: number }
export interface Line { link: Link; path: string; x: number; y: number }
export interface Graph { boxes: Box[]; lines: Line[]; width: number; height: number }

export const BOX = { width: 132, height: 62 };
const GAP = { x: 68, y: 18 };

export function layOut(stages: readonly Stage[], links: readonly Link[]): Graph {
  const columns = columnsOf(stages, links);
  const filled: number[] = [];
  const boxes = stages.map((stage) => {
    const column = columns.get(stage.name) ?? 0;
    const row = filled[column] ?? 0;
    filled[column] = row + 1;
    return { stage, x: column * (BOX.width + GAP.x), y: row * (BOX.height + GAP.y) };
  });
  const rows = Math.max(1, ...filled.map((count) => count ?? 0));
  const height = rows * (BOX.height + GAP.y) - GAP.y;
  for (const box of boxes) {
    const count = filled[columns.get(box.stage.name) ?? 0] ?? 1;
    box.y += ((rows - count) * (BOX.height + GAP.y)) / 2;
  }
  const byName = new Map(boxes.map((box) => [box.stage.name, box]));
  const lines = links.flatMap((link) => {
    const [from, to] = [byName.get(link.from), byName.get(link.to)];
    return from && to ? [lineOf(link, from, to)] : [];
  });
  const width = Math.max(BOX.width, ...boxes.map((box) => box.x + BOX.width));
  return { boxes, lines, width, height };
}

/** Longest way from a source; a cycle ends after as many steps as there are stages. */
function columnsOf(stages: readonly Stage[], links: readonly Link[]): Map<string, number> {
  const columns = new Map(stages.map((stage) => [stage.name, 0]));
  for (let step = 0; step < stages.length; step += 1) {
    for (const { from, to } of links) {
      const next = Math.min((columns.get(from) ?? 0) + 1, stages.length - 1);
      if (columns.has(to) && next > (columns.get(to) ?? 0)) columns.set(to, next);
    }
  }
  return columns;
}

function lineOf(link: Link, from: Box, to: Box): Line {
  const [x1, y1] = [from.x + BOX.width, from.y + BOX.height / 2];
  const [x2, y2] = [to.x, to.y + BOX.height / 2];
  const bend = Math.max(24, (x2 - x1) / 2);
  return { link, path: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, x: (x1 + x2) / 2, y: (y1 + y2) / 2 };
}
