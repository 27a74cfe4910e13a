"""A Pipeline whose stages are placed by a plan: its profile, as a file has it, and its cluster."""

from typing import Any

from fairlead.pipeline.profile.facts import (
    EdgeFacts,
    LinkFacts,
    MachineFacts,
    PipelineProfile,
    StageCost,
    StageFacts,
)
from fairlead.pipelineobjects.plan_spec import plan_body
from tests.pipelineobjects.worlds import Cluster, Json, node, pipeline

SPEC = """
stages:
  - {name: camera, source: numbers, options: {count: 100, rate: 30}, host: edge}
  - {name: detect, run: "code.py:detect"}
  - {name: count, run: "code.py:count"}
  - {name: log, sink: jsonl, options: {path: /data/out.jsonl}}
hosts:
  - {name: edge, nodeSelector: {room: lab}}
  - {name: server, nodeSelector: {room: rack}}
  - {name: spare, nodeSelector: {room: attic}, class: jetson-orin-nano}
"""
MILLISECONDS: dict[str, dict[str, float]] = {
    "camera": {"edge": 1},
    "detect": {"local": 90, "edge": 60, "server": 20, "nano": 30},
    "count": {"local": 9, "edge": 4, "server": 1, "nano": 2},
}
"""By stage and machine of the profile; the host spare is of the class of nano."""
MACHINES = {"local": "", "edge": "", "server": "", "nano": "jetson-orin-nano"}
MEBIBYTE = 1 << 20


def profile(rate: float = 1e8, **changed: dict[str, float]) -> PipelineProfile:
    """Return the profile, with other times for some stages; every link carries `rate` bytes a second."""
    times = {**MILLISECONDS, **changed}
    return PipelineProfile(
        "count",
        tuple(MachineFacts(name, 4, 4096 * MEBIBYTE, device) for name, device in MACHINES.items()),
        tuple(LinkFacts(one, two, rate, 0.001) for one in MACHINES for two in MACHINES if one != two),
        tuple(
            StageFacts(
                name, 1.0, {at: StageCost(ms / 1e3, ms / 1e3, 64 * MEBIBYTE) for at, ms in row.items()}
            )
            for name, row in times.items()
        ),
        tuple(
            EdgeFacts(one, two, size, 1.0)
            for one, two, size in (
                ("camera", "detect", 1e5),
                ("detect", "count", 1e3),
                ("count", "log", 100.0),
            )
        ),
    )


def planned_pipeline(
    known: PipelineProfile | None = None, text: str = SPEC, namespace: str = "shop", **plan: Any
) -> Json:
    """Return a Pipeline with a plan."""
    body = pipeline(text, namespace=namespace)
    objective, limit = plan.get("objective", "throughput"), plan.get("max_latency")
    body["spec"]["plan"] = plan_body(known or profile(), objective, limit)
    return body


def planned_cluster(known: PipelineProfile | None = None, text: str = SPEC, **plan: Any) -> Cluster:
    """Return a cluster with a node for each host, and one for the coordinator."""
    cluster = Cluster(planned_pipeline(known, text, **plan))
    cluster.nodes = [
        node("pi-3", room="lab"),
        node("big-1", room="rack"),
        node("nano-1", room="attic", **{"fairlead.dev/jetson-orin-nano.count": "1"}),
        node("n1"),
    ]
    return cluster


def places(cluster: Cluster) -> dict[str, str]:
    """Return the host of each stage."""
    return {each["stage"]: each["host"] for each in cluster.resource["status"]["plan"]}
