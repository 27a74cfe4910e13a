"""An invented cluster with something in every table, for looking at the page; a test may change its board."""

import math
import time
from collections.abc import Iterator
from typing import Final, Literal

from msgspec.structs import replace

from fairlead.dashboard import answers, row_types
from fairlead.dashboard.board import Board
from fairlead.dashboard.source import DashboardSource

GIB: Final = 1 << 30
Confidence = Literal["high", "medium", "low", "unknown"]
COMMANDS: Final = {
    "nodes": "fairlead nodes",
    "devices": "fairlead top",
    "workloads": "fairlead explain --all",
    "pipelines": "fairlead pipeline list",
    "augmentations": "fairlead augment list",
    "proposals": "fairlead rightsize",
    "simulations": "fairlead simulate list",
    "models": "fairlead estimate MODEL",
}
MODELS: Final = (
    ("h200", "NVIDIA H200", "gpu", 141 * GIB, 700.0),
    ("l4", "NVIDIA L4", "gpu", 24 * GIB, 72.0),
    ("jetson-orin-nx-16gb", "Jetson Orin NX 16GB", "gpu", 16 * GIB, 25.0),
    ("hailo-8", "Hailo-8", "npu", None, None),
)
LATENCIES: Final[tuple[tuple[float, float, Confidence], ...]] = (
    (0.0009, 1.2, "high"),
    (0.004, 1.3, "high"),
    (0.014, 1.5, "medium"),
    (0.0061, 2.6, "low"),
)
HOLDERS: Final = ("detector", "reader", "tracker", "ocr")
WAITING: Final = "shop/trainer"
WHY: Final = (
    "0 of 24 accelerators can take trainer: 14 lack memory (need 16.0 GiB, most 9.0 GiB free), 6 are not "
    "GPUs, 4 are on nodes that are not ready; smallest change that would fit: ask for 9.0 GiB of the "
    "accelerator's memory instead of 16.0 GiB"
)


class Workshop(DashboardSource):
    """The source: its rows stand still until a test changes them."""

    def __init__(self, nodes: int = 6, pods: int = 18) -> None:
        board = Board(COMMANDS, time.time)
        super().__init__(board, answers.SourceInfo(kind="cluster", name="workshop"))
        board.replace("nodes", [node(number) for number in range(nodes)])
        for second in range(-590, 0, 10):
            board.apply("devices", [earlier(second)])
        board.replace("devices", devices(nodes))
        board.replace("workloads", workloads(pods))
        board.replace("pipelines", [PIPELINE])
        board.replace("augmentations", AUGMENTATIONS)
        board.replace("proposals", [proposal(number) for number in range(4)])
        board.replace("simulations", [simulation(policy) for policy in ("predicted", "requested")])
        board.replace(
            "models",
            [row_types.ModelRow(key="yolov8n", name="yolov8n", source="ModelProfile", operators=233)],
        )

    async def why(self, key: str) -> answers.WhyAnswer | None:
        """Return the same reasons for every workload."""
        texts = (
            (14, "lack memory (need 16.0 GiB, most 9.0 GiB free)", "memory", "rack-1/l4-1"),
            (6, "are not GPUs", "kind", "edge-3/npu-3"),
            (4, "are on nodes that are not ready", "node", "rack-4/gpu-0"),
        )
        return answers.WhyAnswer(
            key=key,
            fits=False,
            state="waiting",
            summary=WHY,
            reasons=tuple(
                answers.WhyReason(count=count, of=24, text=text, filter=name, example=example)
                for count, text, name, example in texts
            ),
            changes=(
                answers.WhyChange(
                    text="ask for 9.0 GiB of the accelerator's memory instead of 16.0 GiB", smallest=True
                ),
                answers.WhyChange(
                    text="evict shop/reader-2 and shop/ocr-3 on rack-1, which have a lower priority"
                ),
            ),
            notes=("Its volume data-trainer is bound to node rack-1.",),
            decided=time.time(),
            source="decided by the scheduler",
            command=f"fairlead explain {key}",
        )

    async def predictions(self, model: str) -> answers.ModelDevices | None:
        """Return a latency for each kind of device but one."""
        rows = [prediction(at, *values) for at, values in enumerate(LATENCIES)]
        unknown = answers.Prediction(
            key="coral-usb",
            name="Coral USB",
            runtime="tflite",
            precision="int8",
            why="no measurement, and its compiler does not take NonMaxSuppression",
        )
        return answers.ModelDevices(
            model=model, rows=(*rows, unknown), command=f"fairlead estimate {model}.onnx"
        )

    async def pipeline(self, key: str) -> answers.PipelineAnswer | None:
        """Return four stages with one cut."""
        stages = (
            ("camera", "edge-3", 0.1),
            ("decode", "edge-3", 0.4),
            ("detect", "rack-1", 0.97),
            ("count", "rack-1", None),
        )
        return answers.PipelineAnswer(
            key=key,
            stages=tuple(
                answers.PipelineStage(
                    name=name,
                    host=host,
                    rate=24.6,
                    busy=busy,
                    queue=0,
                    dropped=12 if name == "detect" else 0,
                    bottleneck=name == "detect",
                    replicas=1 + (name == "detect"),
                )
                for name, host, busy in stages
            ),
            links=tuple(
                answers.PipelineLink(
                    source=one,
                    target=two,
                    cut=one == "decode",
                    bytes_per_second=7.6e6 if one == "decode" else 41e3,
                    dropped=0,
                )
                for one, two in (("camera", "decode"), ("decode", "detect"), ("detect", "count"))
            ),
            reasons=("detect is the bottleneck: busy 97 % with 2 replicas",),
            frames=(answers.FrameRef(id="18231"),),
            command=f"fairlead pipeline status {key}",
        )

    async def frame(self, key: str, frame: str) -> answers.FrameAnswer | None:
        """Return the way of a frame through the four stages."""
        spans = (
            ("camera", "edge-3", 0.0, 0.004, "work"),
            ("decode", "edge-3", 0.004, 0.016, "work"),
            ("decode", "edge-3", 0.02, 0.041, "send"),
            ("detect", "rack-1", 0.061, 0.039, "work"),
            ("count", "rack-1", 0.1, 0.003, "work"),
        )
        return answers.FrameAnswer(
            id=frame,
            spans=tuple(
                answers.FrameSpan(stage=stage, host=host, start=start, seconds=seconds, what=what)
                for stage, host, start, seconds, what in spans
            ),
        )

    async def simulation(self, key: str) -> answers.SimulationAnswer | None:
        """Return one series."""
        times = [3600.0 * hour for hour in range(48)]
        values = [float(40 + 30 * ((hour // 6) % 2) + hour % 5) for hour in range(48)]
        return answers.SimulationAnswer(
            key=key,
            times=times,
            series=(answers.SimulationSeries(name="waiting", unit="jobs", values=list(values)),),
            command=f"fairlead simulate show {key}",
        )


def node(number: int) -> row_types.NodeRow:
    """Return a node; the fifth is not ready."""
    name = f"{'edge' if number % 3 == 2 else 'rack'}-{number}"
    ready = number != 4
    return row_types.NodeRow(
        key=name,
        name=name,
        state="ready" if ready else "not-ready",
        reason="" if ready else "no heartbeat for 3m",
        cpu_milli=16_000,
        cpu_used_milli=1700 * (number + 1),
        memory_bytes=64 * GIB,
        memory_used_bytes=(7 + 5 * number) * GIB,
        devices=4,
        arch="arm64" if number % 3 == 2 else "amd64",
        agent="ok" if ready else "missing",
    )


def devices(nodes: int) -> Iterator[row_types.DeviceRow]:
    """Yield four accelerators for each node."""
    for number in range(nodes):
        for at in range(4):
            yield device(node(number).name, number, at)


def device(host: str, number: int, at: int) -> row_types.DeviceRow:
    """Return an accelerator with up to three holders."""
    model, name, kind, memory, watts = MODELS[(number + at) % len(MODELS)]
    shares = (
        tuple(share(number, at, place, memory) for place in range((number + 2 * at) % 4)) if memory else ()
    )
    healthy = number != 4
    used = None if memory is None else sum(part.measured_bytes or 0 for part in shares) + GIB // 3
    key = f"{host}/{kind}-{at}"
    return row_types.DeviceRow(
        key=key,
        node=host,
        device=f"{kind}-{at}",
        model=model,
        name=name,
        kind=kind,
        state="healthy" if healthy else "unknown",
        reason="" if healthy else "its node is not ready",
        memory_bytes=memory,
        memory_used_bytes=used,
        utilisation=((number * 37 + at * 23) % 100) / 100 if healthy else None,
        power_watts=None if watts is None else round(watts * (0.3 + 0.15 * at), 1),
        temperature_celsius=41.0 + 3 * at if healthy else None,
        measured=time.time(),
        requested_bytes=sum(part.requested_bytes for part in shares),
        predicted_bytes=sum(part.predicted_bytes or 0 for part in shares) or None,
        shares=shares,
    )


def earlier(second: int) -> row_types.DeviceRow:
    """Return an accelerator as it was measured so many seconds from now."""
    wave = (1 + math.sin(second / 60)) / 2
    return replace(
        device("rack-0", 0, 1),
        measured=time.time() + second,
        utilisation=round(0.2 + 0.6 * wave, 3),
        power_watts=round(25 + 40 * wave, 1),
        temperature_celsius=round(44 + 12 * wave, 1),
        memory_used_bytes=(8 if second > -300 else 5) * GIB,
    )


def share(number: int, at: int, place: int, memory: int) -> row_types.ShareOfDevice:
    """Return a holder that requests a quarter of the memory; another tenant's has no key."""
    name = f"{HOLDERS[(number + place) % 4]}-{number}"
    foreign = (number + at + place) % 7 == 6
    requested = memory // 4
    measured = requested * (55 + (number * 13 + place * 31) % 60) // 100
    return row_types.ShareOfDevice(
        holder=None if foreign else f"shop/{name}",
        name="other" if foreign else name,
        requested_bytes=requested,
        predicted_bytes=None if place == 2 else requested * 3 // 4,
        measured_bytes=measured,
    )


def workloads(pods: int) -> Iterator[row_types.WorkloadRow]:
    """Yield pods: the first ones wait."""
    whys = (
        WHY,
        WHY.replace("trainer", "finetune"),
        "train-1 cannot be placed: only 2 of 4 of the gang fit",
        "quota shop: 96.0 GiB of 96.0 GiB of accelerator memory are in use",
    )
    for number in range(pods):
        waits = number < len(whys)
        name = (
            ("trainer", "finetune", "train-1", "batch-ocr")[number]
            if waits
            else f"{HOLDERS[number % 4]}-{number}"
        )
        yield row_types.WorkloadRow(
            key=f"shop/{name}",
            kind="pod",
            namespace="shop",
            name=name,
            state="waiting" if waits else "running",
            since=time.time() - 250 * (number + 1) ** 2,
            node=None if waits else node(number % 4).name,
            requested=row_types.RequestedAmounts(
                cpu_milli=4000, memory_bytes=8 * GIB, accelerator_bytes=16 * GIB, count=1
            ),
            priority=100 * (number % 2),
            gang="train" if number == 2 else None,
            model="yolov8n" if number % 2 == 0 else None,
            why=whys[number] if waits else "",
            place=number + 1 if waits else None,
        )


def prediction(at: int, seconds: float, spread: float, confidence: Confidence) -> answers.Prediction:
    """Return what is predicted on a device of the list."""
    model, name, kind, _, _ = MODELS[at]
    return answers.Prediction(
        key=model,
        name=name,
        runtime="onnxruntime" if kind == "gpu" else "hailort",
        precision="fp16" if kind == "gpu" else "int8",
        seconds=seconds,
        low_seconds=seconds / spread,
        p90_seconds=seconds * spread,
        memory_bytes=GIB // 2,
        energy_joules=None if at > 1 else seconds * 60,
        confidence=confidence,
        fits=at != 0,
    )


def proposal(number: int) -> row_types.ProposalRow:
    """Return a proposal that saves memory."""
    key = f"shop/{HOLDERS[number]}"
    return row_types.ProposalRow(
        key=key,
        namespace="shop",
        workload=key,
        what="accelerator memory",
        now_bytes=(8 + number) * GIB,
        proposed_bytes=4 * GIB,
        saves_bytes=(4 + number) * GIB,
        risk=0.004 * number,
        command=f"fairlead rightsize {key}",
    )


def simulation(policy: str) -> row_types.SimulationRow:
    """Return a run of one policy."""
    better = policy == "predicted"
    figures = (("placed", 8152.0 if better else 7842.0, "jobs"), ("mean wait", 12.4 if better else 24.8, "s"))
    return row_types.SimulationRow(
        key=f"openb-{policy}",
        name="openb",
        policy=policy,
        nodes=1213,
        jobs=8152,
        started=time.time() - 3600,
        figures=tuple(row_types.Figure(name=name, value=value, unit=unit) for name, value, unit in figures),
    )


PIPELINE: Final = row_types.PipelineRow(
    key="shop/people",
    namespace="shop",
    name="people",
    state="running",
    stages=4,
    frames_per_second=24.6,
    latency_seconds=0.142,
    bottleneck="detect",
    dropped=12,
)
AUGMENTATIONS: Final = (
    row_types.AugmentationRow(
        key="shop/cam-7",
        namespace="shop",
        name="cam-7",
        state="ready",
        device="pi-cam-7",
        unit="4 cores, 8 GiB, 6 GiB of l4",
        storage_bytes=50 * GIB,
        used_bytes=12 * GIB,
        device_rate=2.1,
        server_rate=61.5,
        progress=0.42,
        bound="link",
        job="index-photos",
        command="fairlead augment status cam-7",
    ),
    row_types.AugmentationRow(
        key="shop/cam-9",
        namespace="shop",
        name="cam-9",
        state="joining",
        reason="the device has not used its invite",
        device="pi-cam-9",
        unit="2 cores, 4 GiB",
        storage_bytes=20 * GIB,
        command="fairlead augment status cam-9",
    ),
)
