/** Runs of a simulation side by side. Pure. */
import type { SimulationRow } from "../api/types";

export interface Compared { name: string; unit: string; values: Map<string, number> }

/** Return every figure that any run has, in the order in which they first appear. */
export function figuresOf(runs: readonly SimulationRow[]): Compared[] {
  const figures = new Map<string, Compared>();
  for (const run of runs) {
    for (const { name, value, unit } of run.figures) {
      const figure = figures.get(name) ?? { name, unit, values: new Map<string, number>() };
      if (value !== null) figure.values.set(run.key, value);
      figures.set(name, figure);
    }
  }
  return [...figures.values()];
}
