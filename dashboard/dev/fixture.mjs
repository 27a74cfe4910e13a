/** An invented fleet that changes: enough of everything to look at the page without a server. */

const GI = 2 ** 30;
let seed = 7;
export function random() {
  seed = (seed * 16807) % 2147483647;
  return seed / 2147483647;
}
const pick = (list) => list[Math.floor(random() * list.length)];
export const now = () => Date.now() / 1000;

const MODELS = [
  { model: "nvidia-h200", name: "NVIDIA H200", kind: "gpu", memory: 141 * GI, watts: 700 },
  { model: "nvidia-l4", name: "NVIDIA L4", kind: "gpu", memory: 24 * GI, watts: 72 },
  { model: "jetson-orin-nx-16gb", name: "Jetson Orin NX 16GB", kind: "gpu", memory: 16 * GI, watts: 25 },
  { model: "hailo-8", name: "Hailo-8", kind: "npu", memory: null, watts: null },
  { model: "coral-usb", name: "Coral USB", kind: "tpu", memory: null, watts: null },
  { model: "cpu-x86-avx512-vnni", name: "Xeon, AVX-512 VNNI", kind: "cpu", memory: 64 * GI, watts: null },
];

export function makeFleet(nodeCount, each) {
  const nodes = [];
  const devices = [];
  for (let n = 0; n < nodeCount; n += 1) {
    const name = `${pick(["edge", "rack", "lab"])}-${n + 1}`;
    const bad = n === 3 ? "not-ready" : n === 5 ? "cordoned" : "ready";
    nodes.push({
      key: name, name, state: bad, reason: bad === "not-ready" ? "no heartbeat for 3m: KubeletNotReady" : "",
      cpu_milli: 16000, cpu_used_milli: Math.round(random() * 16000), memory_bytes: 64 * GI,
      memory_used_bytes: random() * 64 * GI, devices: each, arch: pick(["amd64", "arm64"]),
      taints: n === 5 ? ["node.kubernetes.io/unschedulable:NoSchedule"] : [], agent: n === 4 ? "missing" : n === 6 ? "old" : "ok",
    });
    for (let d = 0; d < each; d += 1) devices.push(makeDevice(name, d, n));
  }
  return { nodes, devices };
}

function makeDevice(node, d, n) {
  const kind = n < 6 ? MODELS[(n + d) % MODELS.length] : pick(MODELS);
  const state = n === 3 && d === 0 ? "unhealthy" : kind.kind === "tpu" && d === 1 ? "present" : "healthy";
  const shares = [];
  let left = kind.memory ?? 0;
  for (let s = 0; kind.memory !== null && kind.kind !== "cpu" && s < Math.floor(random() * 4); s += 1) {
    const requested = Math.min(left, Math.ceil((kind.memory / GI) * (0.1 + random() * 0.3)) * GI);
    if (requested < GI / 2) break;
    left -= requested;
    const name = `${pick(["detector", "reader", "trainer", "ocr", "tracker"])}-${Math.floor(random() * 90)}`;
    const foreign = random() < 0.12;
    shares.push({
      holder: foreign ? null : `shop/${name}`, name: foreign ? "" : name, requested_bytes: requested,
      predicted_bytes: random() < 0.2 ? null : requested * (0.5 + random() * 0.4),
      measured_bytes: random() < 0.1 ? null : requested * (0.35 + random() * 0.7), whole: false,
    });
  }
  if (kind.kind === "npu" && random() < 0.5) {
    shares.push({ holder: "shop/camera-1", name: "camera-1", requested_bytes: 0, predicted_bytes: null, measured_bytes: null, whole: true });
  }
  const measured = shares.reduce((sum, share) => sum + (share.measured_bytes ?? 0), 0);
  const device = `${kind.kind}${d}`;
  return {
    key: `${node}/${device}`, node, device, model: kind.model, name: kind.name, kind: kind.kind, state,
    reason: state === "unhealthy" ? "XID 79: fell off the bus; reset or replace it" : state === "present" ? "driver gasket is not loaded: modprobe gasket" : "",
    memory_bytes: kind.memory, memory_used_bytes: kind.memory === null ? null : measured + random() * 0.03 * kind.memory,
    utilisation: state === "healthy" ? random() : null, power_watts: kind.watts === null ? null : kind.watts * (0.2 + random() * 0.7),
    temperature_celsius: kind.kind === "tpu" ? null : 35 + random() * 40, measured: now() - random() * 4,
    requested_bytes: shares.reduce((sum, share) => sum + share.requested_bytes, 0),
    predicted_bytes: shares.length === 0 ? 0 : shares.reduce((sum, share) => sum + (share.predicted_bytes ?? share.requested_bytes), 0), shares,
  };
}

const WHYS = [
  (all) => `0/${all} nodes: ${all - 3} lack accelerator memory (12 GiB of 24 GiB free at most), 2 do not match the node selector, 1 is not ready`,
  (all) => `waits for 2 of 4 members of gang shop/train`,
  (all) => `0/${all} nodes: 9 are too slow for yolov8n in 30ms, ${all - 9} lack 4 cores`,
  () => `quota shop-gpu: 96 GiB of 96 GiB of accelerators are in use`,
];

export function makeWorkloads(count, devices, nodeCount) {
  const rows = [];
  for (let w = 0; w < count; w += 1) {
    const waiting = w % 6 === 0;
    const name = waiting ? `${pick(["trainer", "finetune", "batch-ocr"])}-${w}` : `${pick(["detector", "reader", "tracker"])}-${w}`;
    const device = pick(devices);
    rows.push({
      key: `shop/${name}`, kind: "pod", namespace: w % 5 === 0 ? "lab" : "shop", name, state: waiting ? "waiting" : w % 37 === 0 ? "failed" : w % 11 === 0 ? "starting" : "running",
      since: now() - random() ** 3 * 40000, node: waiting ? null : device.node, devices: waiting ? [] : [device.key],
      model: w % 3 === 0 ? "yolov8n" : null,
      requested: { cpu_milli: 500 + Math.floor(random() * 8) * 500, memory_bytes: 4 * GI, accelerator_bytes: w % 7 === 0 ? null : 16 * GI, whole: w % 7 === 0, count: w % 9 === 0 ? 2 : 1 },
      priority: w % 4 === 0 ? 1000 : 0, gang: w % 8 === 0 ? "shop/train" : null, why: waiting ? pick(WHYS)(nodeCount) : "", place: waiting ? w / 6 + 1 : null,
    });
  }
  for (const row of rows) row.key = `${row.namespace}/${row.name}`;
  return rows;
}

export const OTHERS = {
  models: ["yolov8n", "resnet50", "mobilenet_v2", "whisper-base", "llama-3.2-1b"].map((name, index) => ({ key: name, name, source: index < 3 ? "ModelProfile" : "file", operators: index === 4 ? null : 64 + index * 91 })),
  pipelines: [
    { key: "shop/people", namespace: "shop", name: "people", state: "running", reason: "", stages: 6, frames_per_second: 24.6, latency_seconds: 0.142, bottleneck: "detect", dropped: 12 },
    { key: "lab/ocr", namespace: "lab", name: "ocr", state: "degraded", reason: "stage read: its link to rack-2 carries 3.1 of 8.0 MB/s", stages: 4, frames_per_second: 3.2, latency_seconds: 1.9, bottleneck: "read", dropped: 840 },
  ],
  augmentations: [
    { key: "shop/cam-7", namespace: "shop", name: "cam-7", state: "ready", reason: "", device: "pi-cam-7", unit: "4 cores · 8 GiB · 6 GiB of nvidia-l4", storage_bytes: 50 * GI, used_bytes: 12 * GI, device_rate: 2.1, server_rate: 61.5, progress: 0.42, bound: "link", job: "index-photos", command: "fairlead augment status cam-7" },
    { key: "shop/cam-9", namespace: "shop", name: "cam-9", state: "joining", reason: "the device has not used its invite", device: "pi-cam-9", unit: "2 cores · 4 GiB", storage_bytes: 20 * GI, used_bytes: null, device_rate: null, server_rate: null, progress: null, bound: null, job: null, command: "fairlead augment status cam-9" },
  ],
  proposals: [1, 2, 3, 4, 5].map((n) => ({ key: `shop/detector-${n}`, workload: `shop/detector-${n}`, what: "accelerator memory", now_bytes: (8 + n) * GI, proposed_bytes: (3 + n / 2) * GI, saves_bytes: (5 + n / 2) * GI, risk: n === 2 ? null : 0.004 * n, command: `fairlead rightsize shop/detector-${n}` })),
  simulations: ["predicted", "requested", "random"].map((policy, index) => ({
    key: `openb-${policy}`, name: "openb", policy, nodes: 1213, jobs: 8152, started: now() - 3600 * index,
    figures: [{ name: "placed", value: 8152 - index * 310, unit: "jobs" }, { name: "mean wait", value: 12.4 * (index + 1), unit: "s" }, { name: "accelerators used", value: 0.91 - index * 0.07, unit: "" }, { name: "energy", value: 812 + index * 55, unit: "MJ" }],
  })),
};

export function why(row, all) {
  return {
    key: row.key, fits: false, state: row.state, decided: now() - 1.4, source: "the scheduler's cache", command: `fairlead explain ${row.key}`,
    summary: row.state === "waiting" ? `No node has 16 GiB of one accelerator free together with 4 cores: ${all - 3} of ${all} lack accelerator memory, and the two that have it lack cores.` : `It runs on ${row.node}.`,
    reasons: row.state !== "waiting" ? [] : [
      { count: all - 3, of: all, text: "lack accelerator memory: 16 GiB asked, at most 12 GiB free on one device", filter: "accelerator", example: "rack-2: nvidia-l4 has 12 of 24 GiB free" },
      { count: 2, of: all, text: "lack cores: 4 asked, at most 1.5 free", filter: "cores", example: "rack-8" },
      { count: 1, of: all, text: "not ready", filter: "node", example: "lab-4: no heartbeat for 3m" },
    ],
    changes: row.state !== "waiting" ? [] : [
      { text: "Ask for 12 GiB of accelerator memory instead of 16 GiB: it fits rack-2 now.", smallest: true },
      { text: "Wait for shop/detector-12 on rack-8: it frees 6 GiB (it usually ends after 40m; 22m left).", smallest: false },
      { text: "Take the size that was measured for shop/reader-31 (9 GiB less): fairlead rightsize shop/reader-31", smallest: false },
    ],
    notes: row.gang === null ? [] : ["Two other members of the gang shop/train are reserved on rack-2 and rack-8."],
  };
}

export function modelDevices(name) {
  const rows = MODELS.flatMap((model, index) => ["onnxruntime", ...(model.kind === "gpu" ? ["tensorrt"] : [])].map((runtime, way) => {
    const unknown = model.kind === "tpu" || (index === 5 && name === "llama-3.2-1b");
    const seconds = [0.0009, 0.004, 0.014, 0.0061, null, 0.038][index];
    const value = seconds === null ? null : seconds * (way === 0 ? 1.4 : 1);
    return {
      key: model.model, name: model.name, runtime, precision: way === 0 ? "fp32" : "fp16", seconds: unknown ? null : value,
      low_seconds: unknown ? null : value * 0.8, p90_seconds: unknown ? null : value * (index === 3 ? 2.6 : 1.3),
      memory_bytes: unknown ? null : GI * (0.3 + index / 10), energy_joules: unknown || index > 2 ? null : value * 60,
      confidence: unknown ? "unknown" : ["high", "high", "medium", "low", "unknown", "medium"][index],
      why: unknown ? "operator NonMaxSuppression does not run on its compiler, and nothing was measured" : "", fits: index !== 0,
    };
  }));
  return { model: name, rows, command: `fairlead estimate ${name}.onnx --all-devices` };
}

export function pipeline(key) {
  const stages = [["camera", "pi-cam-7", 25], ["decode", "pi-cam-7", 25], ["detect", "rack-2", 24.6], ["track", "rack-2", 24.6], ["count", "rack-2", 24.6], ["store", "lab-4", 24.6]];
  const links = [["camera", "decode"], ["decode", "detect"], ["detect", "track"], ["detect", "count"], ["track", "store"], ["count", "store"]];
  const host = Object.fromEntries(stages);
  return {
    key, command: `fairlead pipeline status ${key}`, reasons: ["detect is the bottleneck: busy 97 % with 2 replicas", "cut after decode: its frames are the smallest that any cut sends (310 kB)"],
    stages: stages.map(([name, at, rate], index) => ({ name, host: at, replicas: index === 2 ? 2 : 1, rate: index === 5 ? null : rate, busy: [0.1, 0.4, 0.97, 0.3, 0.2, null][index], queue: index === 2 ? 8 : 0, dropped: index === 2 ? 12 : 0, bottleneck: index === 2 })),
    links: links.map(([from, to]) => ({ from, to, cut: host[from] !== host[to] || from === "decode" || to === "store", bytes_per_second: from === "decode" ? 7.6e6 : 41e3, dropped: 0 })),
    frames: ["18231", "18230", "18207"].map((id) => ({ id })),
  };
}

export function frame(id) {
  let at = now() - 3;
  const spans = [["camera", "pi-cam-7", 0.004, "read"], ["decode", "pi-cam-7", 0.016, "work"], ["decode", "pi-cam-7", 0.041, "send"], ["detect", "rack-2", 0.022, "wait"], ["detect", "rack-2", 0.039, "work"], ["track", "rack-2", 0.008, "work"], ["count", "rack-2", 0.003, "work"], ["store", "lab-4", 0.009, "work"]]
    .map(([stage, at_host, seconds, what]) => ({ stage, host: at_host, start: (at += seconds) - seconds, seconds, what }));
  return { id, spans };
}

export function series(key, span) {
  const times = Array.from({ length: 121 }, (_, index) => now() - span + (index * span) / 120);
  const wave = (low, high, speed) => times.map((_, index) => (index > 50 && index < 55 ? null : low + (high - low) * (0.5 + 0.4 * Math.sin(index / speed)) + random() * 0.1 * (high - low)));
  return { key, times, utilisation: wave(0.1, 0.9, 9), memory_used_bytes: wave(8 * GI, 14 * GI, 20), power_watts: wave(20, 70, 9), temperature_celsius: key.includes("tpu") ? times.map(() => null) : wave(40, 62, 30), command: `fairlead top --device ${key}` };
}

export function simulation(key) {
  const times = Array.from({ length: 100 }, (_, index) => index * 3600);
  const factor = key.endsWith("random") ? 1.6 : key.endsWith("requested") ? 1.25 : 1;
  return { key, times, series: [
    { name: "waiting", unit: "jobs", values: times.map((_, index) => Math.round(factor * 40 * (1 + Math.sin(index / 8)))) },
    { name: "accelerators used", unit: "%", values: times.map((_, index) => (90 / factor) * (0.8 + 0.2 * Math.cos(index / 9))) },
  ], command: `fairlead simulate show ${key}` };
}
