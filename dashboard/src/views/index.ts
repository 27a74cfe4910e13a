/** The panels by name. */
import type { ComponentType } from "preact";
import type { Panel } from "../state/route";
import { Augmentations } from "./augmentations";
import { Fleet } from "./fleet";
import { Pipelines } from "./pipelines";
import { Predictions } from "./predictions";
import { Queue } from "./queue";
import { RightSizing } from "./rightsizing";
import { Shares } from "./shares";
import { Simulations } from "./simulations";

export const VIEWS: Record<Panel, ComponentType<{ selected: string | null }>> = {
  queue: Queue, fleet: Fleet, shares: Shares, predictions: Predictions, pipelines: Pipelines,
  augmentations: Augmentations, rightsizing: RightSizing, simulations: Simulations,
};
