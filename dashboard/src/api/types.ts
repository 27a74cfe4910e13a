/** The answers of the server's API, version 1 (docs/reference/dashboard-api.md). Times are unix seconds; null is unknown. */

export type Seconds = number;
export type Action = "cancel" | "rightsize" | "drain";

export interface Stale { source: string; since: Seconds | null; reason: string }

export interface About {
  version: string;
  api: number;
  source: { kind: "cluster" | "machine" | "snapshot"; name: string; taken: Seconds | null };
  viewer: { name: string; namespaces: string[]; actions: Action[] };
  tables: Record<string, { rows: number; command: string }>;
  stale: Stale[];
  now: Seconds;
}

export interface Row { key: string }

export interface NodeRow extends Row {
  name: string;
  state: string;
  reason: string;
  cpu_milli: number;
  cpu_used_milli: number | null;
  memory_bytes: number;
  memory_used_bytes: number | null;
  devices: number;
  arch: string;
  taints: string[];
  agent: string;
}

export interface Share {
  holder: string | null;
  name: string;
  requested_bytes: number;
  predicted_bytes: number | null;
  measured_bytes: number | null;
  whole: boolean;
}

export interface DeviceRow extends Row {
  node: string;
  device: string;
  model: string;
  name: string;
  kind: string;
  state: string;
  reason: string;
  memory_bytes: number | null;
  memory_used_bytes: number | null;
  utilisation: number | null;
  power_watts: number | null;
  temperature_celsius: number | null;
  measured: Seconds | null;
  requested_bytes: number;
  predicted_bytes: number | null;
  shares: Share[];
}

export interface Requested {
  cpu_milli: number;
  memory_bytes: number;
  accelerator_bytes: number | null;
  whole: boolean;
  count: number;
}

export interface WorkloadRow extends Row {
  kind: "pod" | "job";
  namespace: string;
  name: string;
  state: "waiting" | "starting" | "running" | "ended" | "failed";
  since: Seconds | null;
  node: string | null;
  devices: string[];
  model: string | null;
  requested: Requested;
  priority: number;
  gang: string | null;
  why: string;
  place: number | null;
}

export interface PipelineRow extends Row {
  namespace: string;
  name: string;
  state: string;
  reason: string;
  stages: number;
  frames_per_second: number | null;
  latency_seconds: number | null;
  bottleneck: string | null;
  dropped: number | null;
}

export interface AugmentationRow extends Row {
  namespace: string;
  name: string;
  state: string;
  reason: string;
  device: string;
  unit: string;
  storage_bytes: number | null;
  used_bytes: number | null;
  device_rate: number | null;
  server_rate: number | null;
  progress: number | null;
  bound: string | null;
  job: string | null;
  command: string;
}

export interface ProposalRow extends Row {
  namespace: string;
  workload: string;
  what: string;
  now_bytes: number;
  proposed_bytes: number;
  saves_bytes: number;
  risk: number | null;
  command: string;
}

export interface SimulationRow extends Row {
  name: string;
  policy: string;
  nodes: number;
  jobs: number;
  started: Seconds | null;
  figures: { name: string; value: number | null; unit: string }[];
}

export interface ModelRow extends Row { namespace: string; name: string; source: string; operators: number | null }

export interface Rows {
  nodes: NodeRow;
  devices: DeviceRow;
  workloads: WorkloadRow;
  pipelines: PipelineRow;
  augmentations: AugmentationRow;
  proposals: ProposalRow;
  simulations: SimulationRow;
  models: ModelRow;
}
export type TableName = keyof Rows;

export interface Page<R extends Row = Row> {
  table: string;
  revision: number;
  total: number;
  next: string | null;
  rows: R[];
  command: string;
  stale: { since: Seconds; reason: string } | null;
}

export interface Change { table: string; revision: number; put: Row[]; drop: string[]; total: number }

export interface Reason { count: number; of: number; text: string; filter: string; example: string | null }
export interface Why {
  key: string;
  fits: boolean;
  state: string;
  summary: string;
  reasons: Reason[];
  changes: { text: string; smallest: boolean }[];
  notes: string[];
  decided: Seconds;
  source: string;
  command: string;
}

export interface ModelDevice {
  key: string;
  name: string;
  runtime: string;
  precision: string;
  seconds: number | null;
  low_seconds: number | null;
  p90_seconds: number | null;
  memory_bytes: number | null;
  energy_joules: number | null;
  confidence: "high" | "medium" | "low" | "unknown";
  why: string;
  fits: boolean;
}
export interface ModelDevices { model: string; rows: ModelDevice[]; command: string }

export interface Stage {
  name: string;
  host: string;
  replicas: number;
  rate: number | null;
  busy: number | null;
  queue: number | null;
  dropped: number | null;
  bottleneck: boolean;
}
export interface Link { from: string; to: string; cut: boolean; bytes_per_second: number | null; dropped: number | null }
export interface PipelineDetail {
  key: string;
  stages: Stage[];
  links: Link[];
  reasons: string[];
  frames: { id: string }[];
  command: string;
}
export interface Span { stage: string; host: string; start: Seconds; seconds: number; what: string }
export interface Frame { id: string; spans: Span[] }

export interface DeviceSeries {
  key: string;
  times: Seconds[];
  utilisation: (number | null)[];
  memory_used_bytes: (number | null)[];
  power_watts: (number | null)[];
  temperature_celsius: (number | null)[];
  command: string;
}

export interface SimulationDetail {
  key: string;
  times: number[];
  series: { name: string; unit: string; values: (number | null)[] }[];
  command: string;
}

export interface Fault { what: string; where: string; next: string }
