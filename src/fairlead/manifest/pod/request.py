"""A Kubernetes pod as a scheduling request."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead import keys
from fairlead.catalog import Catalog
from fairlead.errors import ManifestError
from fairlead.manifest import amounts
from fairlead.manifest.files.collect import FoundObjects
from fairlead.manifest.pod import claims, rules
from fairlead.manifest.pod.demand import StatedDemand, demand, fraction, is_accelerator
from fairlead.manifest.pod.effective import CPU, MEMORY, effective_requests
from fairlead.manifest.pod.gangs import gang_of_pod
from fairlead.manifest.types import kubernetes
from fairlead.placement import NodeState
from fairlead.request import WHOLE, Demand, Expectation, Gang, Request, Selector
from fairlead.units import Bytes

_SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Priority classes that every cluster has."""


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The catalog and objects that a pod is read with."""

    catalog: Catalog
    objects: FoundObjects = field(default_factory=FoundObjects)
    sizes: Mapping[str, Bytes] = field(default_factory=dict)
    """The memory of accelerators in the cluster, by model: pods may request fractions of it."""


def read_request(
    where: str, pod: kubernetes.Pod, context: ReadContext, controller_gang: Gang | None = None
) -> Request:
    """Return the request of a pod; `controller_gang` is the gang of its controller."""
    spec, meta = pod.spec, pod.metadata
    totals = effective_requests(where, spec)
    place = f"{where}: spec"
    stated = StatedDemand(where, totals, meta.annotations, context.catalog)
    priority, preempts = _priority(where, pod, context.objects)
    return Request(
        name=meta.name,
        namespace=meta.namespace or "default",
        uid=meta.uid,
        cpu=totals.get(CPU, 0),
        memory=Bytes(totals.get(MEMORY, 0)),
        resources=other_resources(totals),
        demand=_demand(where, stated, pod, context),
        labels=meta.labels,
        priority=priority,
        preempts=preempts,
        gang=controller_gang or gang_of_pod(where, pod, context.objects),
        selector=Selector.of(spec.node_selector),
        affinity=rules.node_affinity(f"{place}.affinity.nodeAffinity", spec.affinity.node_affinity),
        preferences=rules.preferred_nodes(f"{place}.affinity.nodeAffinity", spec.affinity.node_affinity),
        tolerations=rules.tolerations(place, spec.tolerations),
        pod_affinity=rules.pod_affinity_terms(
            f"{place}.affinity.podAffinity", spec.affinity.pod_affinity, meta.labels
        ),
        pod_anti_affinity=rules.pod_affinity_terms(
            f"{place}.affinity.podAntiAffinity", spec.affinity.pod_anti_affinity, meta.labels
        ),
        topology_spread=rules.topology_spread(place, spec.topology_spread_constraints, meta.labels),
        ports=rules.ports(place, spec),
        slo=_slo(where, pod),
        estimates=fraction_estimates(fraction(stated), context.sizes),
    )


def memory_by_model(nodes: Iterable[NodeState]) -> dict[str, Bytes]:
    """Return the largest memory of the accelerators of each model."""
    memory: dict[str, Bytes] = {}
    for node in nodes:
        for device in node.devices:
            memory[device.model] = max(memory.get(device.model, Bytes(0)), device.memory)
    return memory


def fraction_estimates(fraction: int | None, memory: Mapping[str, Bytes]) -> dict[str, Expectation]:
    """Return a fraction of the memory of each model, in bytes."""
    if fraction is None:
        return {}
    return {model: Expectation(memory=Bytes(size * fraction // WHOLE)) for model, size in memory.items()}


def other_resources(totals: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return the resources that nodes count beside CPU, memory and accelerators."""
    own_fields = {CPU, MEMORY, "storage", "pods"}
    return tuple(
        sorted(
            (name, amount)
            for name, amount in totals.items()
            if name not in own_fields and not is_accelerator(name)
        )
    )


def _demand(where: str, stated: StatedDemand, pod: kubernetes.Pod, context: ReadContext) -> Demand:
    by_resource = demand(stated)
    by_claim = claims.demand(where, pod, context.objects)
    if by_resource.count and by_claim.count:
        raise ManifestError(f"{where}: requests accelerators by resource and by claim", "keep one of them")
    return by_claim if by_claim.count else by_resource


def _slo(where: str, pod: kubernetes.Pod) -> float | None:
    text = pod.metadata.annotations.get(keys.SLO)
    if text is None:
        return None
    place = f"{where}: metadata.annotations[{keys.SLO}]"
    seconds = amounts.seconds(place, text)
    if not seconds:
        raise ManifestError(f"{place}: {text}: not a duration above zero", "write it like 20ms")
    if not pod.metadata.annotations.get(keys.MODEL, "").strip():
        raise ManifestError(f"{place}: the pod names no model to predict", f"add the annotation {keys.MODEL}")
    return seconds


def _priority(where: str, pod: kubernetes.Pod, objects: FoundObjects) -> tuple[int, bool]:
    """Return the higher priority of a pod and its group, and whether the pod may preempt others."""
    spec = pod.spec
    name = spec.priority_class_name
    priority_class: kubernetes.PriorityClass | None = (
        objects.get("PriorityClass", "", name) if name else _default_class(objects)
    )
    if name and priority_class is None and name not in _SYSTEM and spec.priority is None:
        place = f"{where}: spec.priorityClassName"
        raise ManifestError(f"{place}: no PriorityClass {name!r}", objects.near("PriorityClass", "", name))
    stated = (
        spec.priority
        if spec.priority is not None
        else priority_class.value
        if priority_class
        else _SYSTEM.get(name, 0)
    )
    policy = spec.preemption_policy or (priority_class.preemption_policy if priority_class else "")
    return max([stated, *_group_priority(pod, objects)]), policy != "Never"


def _group_priority(pod: kubernetes.Pod, objects: FoundObjects) -> list[int]:
    """Return the priority of a pod's group; empty where the group has none."""
    group: kubernetes.PodGroup | None = objects.get(
        "PodGroup", pod.metadata.namespace, pod.spec.scheduling_group.pod_group_name
    )
    return [] if group is None or group.spec.priority is None else [group.spec.priority]


def _default_class(objects: FoundObjects) -> kubernetes.PriorityClass | None:
    return next((entry.body for entry in objects.all("PriorityClass") if entry.body.global_default), None)
