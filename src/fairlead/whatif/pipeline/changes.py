"""The smallest changes that would help a Pipeline. Pure.

A change of the cluster comes before one of the run: what does not run cannot be made faster.
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from fairlead.ownedobjects import stored
from fairlead.pipelineobjects.names import LOCAL
from fairlead.units import format_duration
from fairlead.whatif.pipeline.findings import PipelineChange
from fairlead.whatif.pipeline.observed import Json, ObservedPipeline, ObservedPod
from fairlead.whatif.pipeline.run_findings import OLD, drop_rate, edge_name, slow_link

_BUSY: Final = 0.8
"""The share of time from which a stage is what frames wait for."""
_MOST_REPLICAS: Final = 64
_IMAGE: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")


def changes(observed: ObservedPipeline) -> list[PipelineChange]:
    """Return what a person can do, the most useful first."""
    return [*_of_resource(observed), *_of_pods(observed), *_of_run(observed)]


def _of_resource(observed: ObservedPipeline) -> Iterator[PipelineChange]:
    if not stored.is_observed(observed.resource):
        text = (
            "start an operator (operator.enabled in the chart), or read why it does not lead: "
            "kubectl logs -A -l app.kubernetes.io/component=operator"
        )
        yield PipelineChange("operator", "", text)
    if observed.condition("Accepted").get("status") == "False":
        text = "change the spec as the condition Accepted says, then: fairlead pipeline deploy FILE"
        yield PipelineChange("spec", "", text)
    if observed.spec.get("suspend"):
        text = "let it run: fairlead pipeline deploy FILE, or set spec.suspend to false"
        yield PipelineChange("spec", "suspend", text)


def _of_pods(observed: ObservedPipeline) -> Iterator[PipelineChange]:
    namespace = observed.resource["metadata"]["namespace"]
    for pod in observed.pods:
        if pod.is_ending or pod.status.is_ready:
            continue
        suggested = pod.explanation.get("changes") or ()
        text = next((str(each.get("text", "")) for each in suggested if isinstance(each, dict)), "")
        if text:
            yield PipelineChange("pod", pod.status.pod, f"for {pod.status.pod}: {text}")
        elif pod.status.message.startswith(_IMAGE):
            text = f"correct the image of {pod.host}, or spec.imagePullSecrets: {_image(pod)}"
            yield PipelineChange("pod", pod.status.pod, text)
        elif pod.status.is_stuck and pod.status.node:
            text = f"read its log: kubectl logs -n {namespace} {pod.status.pod} --previous"
            yield PipelineChange("pod", pod.status.pod, text)
    for node in observed.nodes.values():
        hosts = [pod.host for pod in observed.pods if pod.status.node == node.name and not pod.is_ending]
        if hosts and not node.is_ready:
            yield PipelineChange(
                "node", node.name, f"bring node {node.name} back, or let {', '.join(hosts)} fit another"
            )


def _image(pod: ObservedPod) -> str:
    return str(pod.manifest["spec"]["containers"][0].get("image", ""))


def _of_run(observed: ObservedPipeline) -> Iterator[PipelineChange]:
    run = observed.run
    if not run:
        return
    if (link := slow_link(run)) is not None:
        yield _of_link(observed, link)
    stages = {stage["name"]: stage for stage in run["stages"]}
    limiting = stages.get(run.get("bottleneck"))
    if limiting is not None and limiting["busy"] >= _BUSY and limiting["role"] in ("run", "exec"):
        waiting = [edge for edge in run["edges"] if edge["to"] == limiting["name"] and _is_behind(edge)]
        if waiting:
            yield _of_stage(observed, limiting, waiting)
    for edge in run["edges"]:
        if drop_rate(edge) and edge["dropped"].get("expired"):
            yield _of_age(observed, edge)


def _is_behind(edge: Json) -> bool:
    """Return whether the stage behind an edge takes less than arrives."""
    return edge["depth"] >= edge["size"] or edge["age"] >= OLD or drop_rate(edge) > 0


def _of_link(observed: ObservedPipeline, edge: Json) -> PipelineChange:
    name = edge_name(edge)
    text = f"put {edge['from']} and {edge['to']} on one host"
    if not _edge_of(observed, edge).get("encode"):
        text += ", or state encode: jpeg on the edge where it carries images"
    return PipelineChange("edge", name, f"{name}: {text}")


def _of_stage(observed: ObservedPipeline, stage: Json, waiting: list[Json]) -> PipelineChange:
    """Return what makes the stage faster: replicas, where it may have some, or another host."""
    name, now = stage["name"], len(stage["workers"])
    spare = _spare_hosts(observed)
    other = f"put {name} on a faster host" + (
        f" ({', '.join(spare)} of the spec has no stage)" if spare else ""
    )
    if not _may_have_replicas(observed, name) or now >= _MOST_REPLICAS:
        return PipelineChange("stage", name, other)
    taken = sum(edge["rate"] for edge in waiting)
    offered = taken + sum(drop_rate(edge) for edge in waiting)
    wanted = math.ceil(now * stage["busy"] * offered / taken) if taken else now + 1
    wanted = min(_MOST_REPLICAS, max(now + 1, wanted))
    scaled = next((each for each in observed.run.get("scaling") or () if each["stage"] == name), None)
    if scaled is not None and not scaled.get("held_by"):  # the run adds some by itself
        return PipelineChange("stage", name, other)
    if scaled is not None and now >= scaled["max"]:
        more = f"raise replicas of {name} to max: {wanted}, where its node has free cores"
    elif scaled is not None:
        more = f"give the pod of {name} more cores: {scaled['held_by']}"
    else:
        more = f"give {name} {wanted} replicas instead of {now}, where its node has free cores"
    return PipelineChange("stage", name, f"{more}; or {other}")


def _may_have_replicas(observed: ObservedPipeline, name: str) -> bool:
    """Return whether a stage may have more replicas: those cannot follow replicas directly."""
    stages = {each["name"]: each for each in observed.spec.get("stages") or ()}
    edges = _edges(observed)
    near = {each["from"] for each in edges if each["to"] == name}
    near |= {each["to"] for each in edges if each["from"] == name}
    return all(_is_single(stages.get(each) or {}) for each in near)


def _is_single(stage: Json) -> bool:
    return stage.get("replicas", 1) == 1 and "scale" not in stage


def _edges(observed: ObservedPipeline) -> list[Json]:
    """Return the edges of the spec; without any, the stages are a chain."""
    stated = observed.spec.get("edges")
    if stated:
        return list(stated)
    names = [each["name"] for each in observed.spec.get("stages") or ()]
    return [{"from": one, "to": other} for one, other in pairwise(names)]


def _edge_of(observed: ObservedPipeline, edge: Json) -> Json:
    same = (each for each in _edges(observed) if (each["from"], each["to"]) == (edge["from"], edge["to"]))
    return next(same, {})


def _spare_hosts(observed: ObservedPipeline) -> list[str]:
    used = {each["host"] for each in observed.status.get("plan") or ()} | {LOCAL}
    return [each["name"] for each in observed.spec.get("hosts") or () if each["name"] not in used]


def _of_age(observed: ObservedPipeline, edge: Json) -> PipelineChange:
    name, limit = edge_name(edge), _edge_of(observed, edge).get("max_age")
    now = f" (now {limit})" if limit else ""
    text = (
        f"{name}: raise max_age{now} above the {format_duration(max(edge['age'], 0.001))} that frames need, "
        f"or make {edge['to']} and what is before it faster"
    )
    return PipelineChange("edge", name, text)
