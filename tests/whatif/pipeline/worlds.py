"""A Pipeline as the operator leaves it, and the status of a run as its coordinator answers it."""

from typing import Any

from fairlead.keys import PIPELINE_HOST
from fairlead.whatif.pipeline.observed import ObservedNode, ObservedPipeline, ObservedPod
from tests.pipelineobjects.worlds import Cluster, pipeline

Json = dict[str, Any]
TIMES: Json = {"receive": {"count": 0, "sum": 0.0}, "process": {"count": 10, "sum": 0.4}}


def stage(name: str, role: str = "run", host: str = "local", **more: Any) -> Json:
    """Return what a run says of a stage."""
    shares = {"rate": 25.0, "busy": 0.1, "waiting": 0.8, "blocked": 0.1}
    counts = {"failed": 0, "restarts": 0, "dropped": {}, "in": 9, "out": 9}
    body = {"name": name, "role": role, "hosts": [host], "workers": [f"{name}/0"], "times": TIMES}
    return {**body, **shares, **counts, **more}


def edge(one: str, other: str, **more: Any) -> Json:
    """Return what a run says of an edge."""
    body = {"from": one, "to": other, "policy": "block", "size": 8, "depth": 0, "age": 0.02}
    return {**body, "rate": 25.0, "drop_rate": 0.0, "dropped": {}, **more}


def run_status(**more: Any) -> Json:
    """Return the status of a run of the pipeline of the small world: nothing limits it."""
    stages = [stage("camera", "source", "edge"), stage("blur", host="server"), stage("log", "sink")]
    edges = [edge("camera", "blur", policy="drop_oldest", size=4), edge("blur", "log")]
    body = {"pipeline": "count", "seconds": 60.0, "open": True, "bottleneck": None, "fused": []}
    return {**body, "stages": stages, "edges": edges, **more}


def running() -> Cluster:
    """Return a cluster in which the Pipeline runs, on one node."""
    cluster = Cluster(pipeline())
    cluster.live()
    for pod in by_host(cluster).values():
        pod["spec"]["nodeName"] = "n1"
    return cluster


def by_host(cluster: Cluster) -> dict[str, Json]:
    """Return the pods of a cluster by the host of the Pipeline that they are."""
    return {pod["metadata"]["labels"][PIPELINE_HOST]: pod for pod in cluster.pods().values()}


def observe(cluster: Cluster, run: Json | None = None, **more: Any) -> ObservedPipeline:
    """Return what is read of the Pipeline of a cluster; its nodes are ready."""
    pods = tuple(ObservedPod.of(each) for each in cluster.pods().values())
    nodes = {pod.status.node: ObservedNode(pod.status.node, is_ready=True) for pod in pods if pod.status.node}
    fields = {"pods": pods, "nodes": nodes, "run": run or {}, "run_note": "" if run else "nothing answered"}
    return ObservedPipeline(cluster.resource, **{**fields, **more})
