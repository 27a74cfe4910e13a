"""Workloads of the short form: a few words instead of the forty lines of a manifest."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from fairlead.catalog import Catalog
from fairlead.errors import ManifestError
from fairlead.manifest import amounts
from fairlead.manifest.files.short import CheckedMapping
from fairlead.manifest.pod import accelerators
from fairlead.manifest.pod.controllers import MOST_PODS
from fairlead.manifest.pod.gangs import UNSTATED
from fairlead.need import Need, NeedSource
from fairlead.request import (
    WHOLE,
    Demand,
    Expectation,
    Gang,
    HostPort,
    PodAffinityTerm,
    Request,
    Selector,
    TaintEffect,
    Toleration,
    TopologySpread,
)
from fairlead.workload import ModelFile

KEYS: Final = (
    *(
        "name",
        "namespace",
        "replicas",
        "labels",
        "cpu",
        "memory",
        "resources",
        "priority",
        "preempts",
        "gang",
    ),
    *("model", "shapes", "precision", "training", "slo", "expected"),
    *("accelerators", "gpu-memory", "need", "compute", "models", "not-models", "vendors"),
    *("selector", "tolerations", "pod-affinity", "pod-anti-affinity", "topology-spread", "ports"),
)
_AFFINITY: Final = ("labels", "topology", "namespaces", "weight")
_SPREAD: Final = ("labels", "topology", "skew", "must", "domains")
_EXPECTED: Final = ("latency", "energy", "memory", "reason", "unknown")
_GANG: Final = ("name", "size")
_HOSTNAME: Final = "kubernetes.io/hostname"
WorkloadPod = tuple[str, Request, ModelFile | None]
"""The place of a pod in its file, its request, and the model that it runs."""


def read_workload(table: CheckedMapping, file: str, catalog: Catalog) -> Iterator[WorkloadPod]:
    """Yield the pods of one workload."""
    one, model = read_pod(table, file, catalog)
    count = table.number("replicas", 1, MOST_PODS)
    if "replicas" not in table.value:
        yield table.where, one, model
        return
    for number in range(count):
        yield table.where, replace(one, name=f"{one.name}-{number}"), model


def read_pod(table: CheckedMapping, file: str, catalog: Catalog) -> tuple[Request, ModelFile | None]:
    """Return one pod of a workload, and the model that it runs."""
    name = table.text("name")
    if not name:
        raise ManifestError(f"{table.at('name')}: missing", "give it a name")
    model = _model(table, file)
    labels = table.mapping("labels")
    return Request(
        name,
        table.text("namespace", "default"),
        cpu=amounts.milli(table.at("cpu"), table.get("cpu", 0)),
        memory=amounts.size(table.at("memory"), table.get("memory", 0)),
        resources=_resources(table),
        demand=_demand(table, catalog, model is not None),
        labels=labels,
        priority=_priority(table),
        preempts=table.flag("preempts", default=True),
        gang=_gang(table),
        selector=Selector.of(table.mapping("selector")),
        tolerations=tuple(_toleration(text) for text in table.texts("tolerations")),
        pod_affinity=tuple(_pod_affinity_terms(table, "pod-affinity")),
        pod_anti_affinity=tuple(_pod_affinity_terms(table, "pod-anti-affinity")),
        topology_spread=tuple(_topology_spread(table, labels)),
        ports=tuple(
            _port(f"{table.at('ports')}[{at}]", item) for at, item in enumerate(table.items("ports"))
        ),
        slo=amounts.seconds(table.at("slo"), table.get("slo")) if table.get("slo") is not None else None,
        estimates=_estimates(table, catalog),
        need=_need(table),
    ), model


def _model(table: CheckedMapping, file: str) -> ModelFile | None:
    path = table.text("model")
    if not path:
        return None
    shapes, precision, training = (
        tuple(table.texts("shapes")),
        table.text("precision"),
        table.text("training"),
    )
    return ModelFile.relative_to(file, path, shapes, precision, training)


def _demand(table: CheckedMapping, catalog: Catalog, by_model: bool) -> Demand:
    memory = (
        amounts.device_memory(table.at("gpu-memory"), size)
        if (size := table.get("gpu-memory")) is not None
        else None
    )
    compute = (
        amounts.fraction(table.at("compute"), fraction)
        if (fraction := table.get("compute")) is not None
        else None
    )
    if compute == 0:
        raise ManifestError(f"{table.at('compute')}: 0", "write more than 0, or leave it out")
    implied = 1 if by_model or memory or compute or table.get("expected") or table.get("models") else 0
    precision = table.text("precision")
    return Demand(
        table.number("accelerators", implied, 1024),
        memory,
        compute,
        accelerators.models(table.at("models"), table.texts("models"), catalog),
        accelerators.models(table.at("not-models"), table.texts("not-models"), catalog),
        accelerators.vendors(table.at("vendors"), table.texts("vendors"), catalog),
        accelerators.precision(table.at("precision"), precision) if precision and not by_model else "",
    )


def _need(table: CheckedMapping) -> Need | None:
    """Return the memory that a pod is expected to hold: sizes, and the part of the time for each."""
    value, where = table.get("need"), table.at("need")
    if value is None:
        return None
    parts = value if isinstance(value, dict) else {value: 1}
    sized = sorted(
        (amounts.size(where, size), amounts.fraction(where, part) / WHOLE) for size, part in parts.items()
    )
    return Need(tuple(size for size, _ in sized), tuple(part for _, part in sized), source=NeedSource.PROFILE)


def _estimates(table: CheckedMapping, catalog: Catalog) -> dict[str, Expectation]:
    """Return the estimates that the file states, by model of accelerator."""
    expected = table.get("expected", {})
    if not isinstance(expected, dict):
        raise ManifestError(f"{table.at('expected')}: not a mapping", "write it like {t4: {latency: 5ms}}")
    estimates = {}
    for name, value in expected.items():
        (model,) = accelerators.models(table.at("expected"), [name], catalog)
        entry = CheckedMapping.of(f"{table.at('expected')}.{name}", value, _EXPECTED)
        estimates[model] = Expectation(
            amounts.seconds(entry.at("latency"), entry.get("latency")) if "latency" in entry.value else None,
            float(amounts.whole(entry.at("energy"), entry.get("energy")))
            if "energy" in entry.value
            else None,
            amounts.size(entry.at("memory"), entry.get("memory")) if "memory" in entry.value else None,
            entry.text("reason"),
            entry.text("unknown"),
        )
    return estimates


def _resources(table: CheckedMapping) -> tuple[tuple[str, int], ...]:
    resources = table.get("resources", {})
    if not isinstance(resources, dict):
        raise ManifestError(f"{table.at('resources')}: not a mapping", "write it like {example.com/key: 1}")
    return tuple(
        (name, amounts.whole(f"{table.at('resources')}.{name}", value))
        for name, value in sorted(resources.items())
    )


def _priority(table: CheckedMapping) -> int:
    value = table.get("priority", 0)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**31:
        raise ManifestError(f"{table.at('priority')}: {value!r}", "write a whole number")
    return value


def _gang(table: CheckedMapping) -> Gang | None:
    value = table.get("gang")
    if value is None:
        return None
    entry = CheckedMapping.of(table.at("gang"), {"name": value} if isinstance(value, str) else value, _GANG)
    size = entry.at_least("size", 1, MOST_PODS) if "size" in entry.value else UNSTATED
    return Gang(f"{table.text('namespace', 'default')}/{entry.text('name')}", size)


def _toleration(text: str) -> Toleration:
    """Read `key=value:Effect`; without value or effect any matches, and `*` tolerates every taint."""
    key_value, colon, effect = text.rpartition(":")
    if not colon or effect not in list(TaintEffect):
        key_value, effect = text, ""
    key, equal, value = key_value.partition("=")
    kind = TaintEffect(effect) if effect else None
    if key == "*":
        return Toleration(exists=True, effect=kind)
    return Toleration(key, value, not equal, kind)


def _pod_affinity_terms(table: CheckedMapping, key: str) -> Iterator[PodAffinityTerm]:
    for at, item in enumerate(table.items(key)):
        value = item if isinstance(item, dict) and "labels" in item else {"labels": item}
        term = CheckedMapping.of(f"{table.at(key)}[{at}]", value, _AFFINITY)
        yield PodAffinityTerm(
            Selector.of(term.mapping("labels")),
            term.text("topology", _HOSTNAME),
            tuple(term.texts("namespaces")),
            term.number("weight", 0, 100),
        )


def _topology_spread(table: CheckedMapping, labels: dict[str, str]) -> Iterator[TopologySpread]:
    for at, item in enumerate(table.items("topology-spread")):
        value = {"topology": item} if isinstance(item, str) else item
        constraint = CheckedMapping.of(f"{table.at('topology-spread')}[{at}]", value, _SPREAD)
        if not constraint.text("topology"):
            raise ManifestError(f"{constraint.at('topology')}: missing", "name a label of nodes")
        yield TopologySpread(
            Selector.of(constraint.mapping("labels") or labels),
            constraint.text("topology"),
            constraint.at_least("skew", 1, MOST_PODS),
            constraint.flag("must", default=True),
            constraint.number("domains", 0, MOST_PODS),
        )


def _port(where: str, value: Any) -> HostPort:
    text, _, protocol = str(value).partition("/")
    number = amounts.whole(where, text, 65535)
    if not number:
        raise ManifestError(f"{where}: 0 is not a port", "write it like 8080 or 53/UDP")
    return HostPort(number, protocol or "TCP")
