"""A bound pod as its kubelet admitted it: read from its spec alone, each part on its own.

The owner of a running pod may change its annotations and labels. Its spec is fixed, and the API server has
validated it: so the spec decides what a pod holds of its node, and a part that cannot be read hides no other.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from fairlead import keys
from fairlead.catalog import Catalog
from fairlead.errors import ManifestError
from fairlead.manifest.pod import rules
from fairlead.manifest.pod.demand import StatedDemand, demand, fraction, is_accelerator
from fairlead.manifest.pod.effective import (
    CPU,
    MEMORY,
    Totals,
    effective_requests,
    named_resources,
    read_amount,
)
from fairlead.manifest.pod.request import fraction_estimates, other_resources
from fairlead.manifest.types.kubernetes import Pod, PodSpec
from fairlead.request import Demand, Expectation, Request
from fairlead.units import Bytes

T = TypeVar("T")
_NO_SHARE: Final = frozenset({keys.SHARE, keys.HAMI_PRIORITY})
"""Resources that name no part of an accelerator by themselves."""


def admitted_request(where: str, pod: Pod, catalog: Catalog, sizes: Mapping[str, Bytes]) -> Request:
    """Return what a bound pod holds by its spec; its accelerators by extended resources alone."""
    spec, meta = pod.spec, pod.metadata
    totals = _totals(where, spec)
    demand_, estimates = _accelerators(where, totals, catalog, sizes)
    apart = f"{where}: spec.affinity.podAntiAffinity"
    return Request(
        name=meta.name,
        namespace=meta.namespace or "default",
        uid=meta.uid,
        cpu=totals.get(CPU, 0),
        memory=Bytes(totals.get(MEMORY, 0)),
        resources=other_resources(totals),
        demand=demand_,
        labels=meta.labels,
        priority=spec.priority or 0,
        preempts=spec.preemption_policy != "Never",
        pod_anti_affinity=_read_or(
            partial(rules.pod_affinity_terms, apart, spec.affinity.pod_anti_affinity, meta.labels), ()
        ),
        ports=_read_or(partial(rules.ports, f"{where}: spec", spec), ()),
        estimates=estimates,
    )


def device_plugin_resources(pod: Pod) -> frozenset[str]:
    """Return the extended resources by which a device plugin may assign accelerators to a pod."""
    return frozenset(filter(is_accelerator, named_resources(pod.spec))) - _NO_SHARE


def _totals(where: str, spec: PodSpec) -> Totals:
    """Return the totals of a pod; where they cannot be read, the sums of its readable containers."""
    try:
        return effective_requests(where, spec)
    except ManifestError:
        totals: Totals = {}
        for container in (*spec.init_containers, *spec.containers):
            for name, text in {**container.resources.limits, **container.resources.requests}.items():
                totals[name] = totals.get(name, 0) + _read_or(partial(read_amount, where, name, text), 0)
        return totals


def _accelerators(
    where: str, totals: Totals, catalog: Catalog, sizes: Mapping[str, Bytes]
) -> tuple[Demand, Mapping[str, Expectation]]:
    """Return the accelerators of a pod by its resources; of contradicting resources, the largest."""
    named = {name: n for name, n in totals.items() if is_accelerator(name) and name not in _NO_SHARE}
    if not named:
        return Demand(), {}
    try:
        stated = StatedDemand(where, named, {}, catalog)
        return demand(stated), fraction_estimates(fraction(stated), sizes)
    except ManifestError:
        single = [StatedDemand(where, {name: number}, {}, catalog) for name, number in named.items()]
        return max((_read_or(partial(demand, one), Demand()) for one in single), key=_demand_size), {}


def _demand_size(asked: Demand) -> tuple[bool, int, int, int]:
    whole = asked.count > 0 and asked.memory is None and asked.compute is None
    return whole, asked.count, asked.memory or 0, asked.compute or 0


def _read_or(read: Callable[[], T], otherwise: T) -> T:
    try:
        return read()
    except ManifestError:
        return otherwise
