"""A pod of Kubernetes as a request for a place."""

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
    """What the objects of a file are read against."""

    catalog: Catalog
    objects: FoundObjects = field(default_factory=FoundObjects)
    sizes: Mapping[str, Bytes] = field(default_factory=dict)
    """The memory that accelerators of each model have in the cluster: parts of it may be asked for."""


def read_request(
    where: str, pod: kubernetes.Pod, context: ReadContext, together: Gang | None = None
) -> Request:
    """Return what a pod asks for; `together` is the gang of its controller."""
    spec, meta = pod.spec, pod.metadata
    totals = effective_requests(where, spec)
    place = f"{where}: spec"
    said = StatedDemand(where, totals, meta.annotations, context.catalog)
    priority, preempts = _priority(where, pod, context.objects)
    return Request(
        name=meta.name,
        namespace=meta.namespace or "default",
        uid=meta.uid,
        cpu=totals.get(CPU, 0),
        memory=Bytes(totals.get(MEMORY, 0)),
        resources=other_resources(totals),
        demand=_demand(where, said, pod, context),
        labels=meta.labels,
        priority=priority,
        preempts=preempts,
        gang=together or gang_of_pod(where, pod, context.objects),
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
        estimates=fraction_estimates(fraction(said), context.sizes),
    )


def memory_by_model(nodes: Iterable[NodeState]) -> dict[str, Bytes]:
    """Return the most memory that accelerators of each model have."""
    found: dict[str, Bytes] = {}
    for node in nodes:
        for device in node.devices:
            found[device.model] = max(found.get(device.model, Bytes(0)), device.memory)
    return found


def fraction_estimates(part: int | None, most: Mapping[str, Bytes]) -> dict[str, Expectation]:
    """Return what a part of an accelerator's memory is on each model."""
    if part is None:
        return {}
    return {model: Expectation(memory=Bytes(size * part // WHOLE)) for model, size in most.items()}


def other_resources(totals: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return the resources that nodes count beside CPU, memory and accelerators."""
    apart = {CPU, MEMORY, "storage", "pods"}
    return tuple(
        sorted(
            (name, amount)
            for name, amount in totals.items()
            if name not in apart and not is_accelerator(name)
        )
    )


def _demand(where: str, said: StatedDemand, pod: kubernetes.Pod, context: ReadContext) -> Demand:
    named = demand(said)
    claimed = claims.demand(where, pod, context.objects)
    if named.count and claimed.count:
        raise ManifestError(f"{where}: asks for accelerators by resource and by claim", "keep one of them")
    return claimed if claimed.count else named


def _slo(where: str, pod: kubernetes.Pod) -> float | None:
    text = pod.metadata.annotations.get(keys.SLO)
    if text is None:
        return None
    place = f"{where}: metadata.annotations[{keys.SLO}]"
    found = amounts.seconds(place, text)
    if not found:
        raise ManifestError(f"{place}: {text}: not a duration above zero", "write it like 20ms")
    if not pod.metadata.annotations.get(keys.MODEL, "").strip():
        raise ManifestError(
            f"{place}: it names no model that could be predicted", f"add the annotation {keys.MODEL}"
        )
    return found


def _priority(where: str, pod: kubernetes.Pod, objects: FoundObjects) -> tuple[int, bool]:
    """Return how important a pod or its group is, whichever is more so, and whether it may put out others."""
    spec = pod.spec
    name = spec.priority_class_name
    found: kubernetes.PriorityClass | None = (
        objects.get("PriorityClass", "", name) if name else _default_class(objects)
    )
    if name and found is None and name not in _SYSTEM and spec.priority is None:
        place = f"{where}: spec.priorityClassName"
        raise ManifestError(f"{place}: no PriorityClass {name!r}", objects.near("PriorityClass", "", name))
    stated = spec.priority if spec.priority is not None else found.value if found else _SYSTEM.get(name, 0)
    policy = spec.preemption_policy or (found.preemption_policy if found else "")
    return max([stated, *_group_priority(pod, objects)]), policy != "Never"


def _group_priority(pod: kubernetes.Pod, objects: FoundObjects) -> list[int]:
    """Return the priority of a pod's group; none where nobody gave it one."""
    group: kubernetes.PodGroup | None = objects.get(
        "PodGroup", pod.metadata.namespace, pod.spec.scheduling_group.pod_group_name
    )
    return [] if group is None or group.spec.priority is None else [group.spec.priority]


def _default_class(objects: FoundObjects) -> kubernetes.PriorityClass | None:
    return next((each.body for each in objects.all("PriorityClass") if each.body.global_default), None)
