"""Pipelines and Augmentations of a live cluster as rows. Pure."""

from collections.abc import Mapping
from typing import Any

from fairlead.dashboard.answers import PipelineAnswer, PipelineLink, PipelineStage
from fairlead.dashboard.row_types import AugmentationRow, PipelineRow
from fairlead.units import parse_quantity

Json = Mapping[str, Any]
_NOT_OK = ("Accepted", "Sized", "Reclaimed")
"""Conditions of an Augmentation that explain it where they are False."""


def pipeline_row(resource: Json, report: Json) -> PipelineRow:
    """Return the row of a Pipeline; `report` is that of `fairlead explain pipeline -o json`."""
    meta, run = resource["metadata"], report.get("run") or {}
    worst = next((each["text"] for each in report["findings"] if each["severity"] != "info"), "")
    dropped = [sum((edge.get("dropped") or {}).values()) for edge in run.get("edges") or ()]
    return PipelineRow(
        key=f"{meta['namespace']}/{meta['name']}",
        namespace=meta["namespace"],
        name=meta["name"],
        state=report["state"],
        reason=worst or (report["sentence"] if not report["running"] else ""),
        stages=len((resource.get("spec") or {}).get("stages") or ()),
        frames_per_second=run.get("rate"),
        latency_seconds=run.get("age"),
        bottleneck=run.get("bottleneck"),
        dropped=sum(dropped) if run else None,
    )


def pipeline_answer(key: str, run: Json, report: Json) -> PipelineAnswer:
    """Return the graph of a Pipeline with what its run measures; `run` is empty where it does not answer."""
    places = {each["name"]: each for each in report["stages"]}
    running = {each["name"]: each for each in run.get("stages") or ()}
    edges = list(run.get("edges") or ())
    stages = tuple(_stage(place, running.get(name, {}), edges, run) for name, place in places.items())
    links = tuple(_link(edge, places) for edge in edges)
    reasons = [each["text"] for each in report["findings"]] + [each["text"] for each in report["changes"]]
    note = [report["run_note"]] if report.get("run_note") else []
    return PipelineAnswer(
        key=key,
        stages=stages,
        links=links,
        reasons=(report["sentence"], *reasons, *note),
        command=f"fairlead explain pipeline {key}",
    )


def _stage(place: Json, stage: Json, edges: list[Any], run: Json) -> PipelineStage:
    queued = [int(edge.get("depth") or 0) for edge in edges if edge.get("to") == place["name"]]
    dropped = stage.get("dropped")
    return PipelineStage(
        name=place["name"],
        host=place["host"],
        replicas=int(stage.get("replicas") or 1),
        rate=stage.get("rate"),
        busy=stage.get("busy"),
        queue=sum(queued) if queued else None,
        dropped=sum(dropped.values()) if isinstance(dropped, Mapping) else None,
        bottleneck=run.get("bottleneck") == place["name"],
    )


def _link(edge: Json, places: Mapping[str, Json]) -> PipelineLink:
    source, target = str(edge["from"]), str(edge["to"])
    hosts = [(places.get(name) or {}).get("host") for name in (source, target)]
    return PipelineLink(
        source=source,
        target=target,
        cut=hosts[0] != hosts[1],
        bytes_per_second=edge.get("bytes_rate"),
        dropped=sum((edge.get("dropped") or {}).values()),
    )


def augmentation_row(resource: Json) -> AugmentationRow:
    """Return the row of an Augmentation."""
    meta, spec, status = resource["metadata"], resource.get("spec") or {}, resource.get("status") or {}
    namespace, name = meta.get("namespace") or "default", meta["name"]
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    told = next(
        (conditions[each] for each in _NOT_OK if (conditions.get(each) or {}).get("status") == "False"), ready
    )
    state = (
        "deleting"
        if meta.get("deletionTimestamp")
        else "ready"
        if ready.get("status") == "True"
        else "waiting"
    )
    joined = conditions.get("Joined") or {}
    reason = told.get("message", "") if state != "ready" else _unless_true(joined)
    program = (spec.get("application") or {}).get("accelerator") or {}
    storage = spec.get("storage") or {}
    return AugmentationRow(
        key=f"{namespace}/{name}",
        namespace=namespace,
        name=name,
        state=state,
        reason=reason or ("" if state == "ready" else "no operator has looked at it yet"),
        device=str(spec.get("device") or ""),
        unit=str(program.get("memory") or ""),
        storage_bytes=_amount(storage.get("size")),
        used_bytes=_amount(status.get("used")),
        command=f"fairlead augment show {name} -n {namespace}",
    )


def _unless_true(condition: Json) -> str:
    return "" if condition.get("status") == "True" else str(condition.get("message") or "")


def _amount(text: object) -> int | None:
    try:
        return None if text in (None, "") else int(parse_quantity(str(text)))
    except ValueError:
        return None
