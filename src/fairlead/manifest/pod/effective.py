"""The effective requests of a pod, by kube-scheduler's rule."""

from collections.abc import Callable, Iterable
from typing import Final

from fairlead.manifest import amounts
from fairlead.manifest.types.kubernetes import Amount, Container, PodResourceRequirements, PodSpec

CPU: Final = "cpu"
MEMORY: Final = "memory"
_STORAGE: Final = ("ephemeral-storage", "storage")
Totals = dict[str, int]
"""By resource: thousandths of a core, bytes, or units."""


def effective_requests(where: str, spec: PodSpec) -> Totals:
    """Return the totals: the sum of containers and sidecars, or the largest init step, plus overhead.

    An init container runs beside the sidecars that started before it. Resources of the pod itself
    (`spec.resources`) replace the sum of its containers.
    """
    running: Totals = {}
    peak: Totals = {}
    for at, container in enumerate(spec.init_containers):
        requests = _container_requests(f"{where}: spec.initContainers[{at}]", container)
        if container.restart_policy == "Always":
            running = _combine(running, requests, _sum)
        else:
            peak = _combine(peak, _combine(running, requests, _sum), max)
    for at, container in enumerate(spec.containers):
        running = _combine(running, _container_requests(f"{where}: spec.containers[{at}]", container), _sum)
    totals = {
        **_combine(running, peak, max),
        **_read_requirements(f"{where}: spec.resources", spec.resources),
    }
    overhead = {
        name: read_amount(f"{where}: spec.overhead.{name}", name, value)
        for name, value in spec.overhead.items()
    }
    return _combine(totals, overhead, _sum)


def named_resources(spec: PodSpec) -> set[str]:
    """Return the resources that the containers of a pod name, with any amount."""
    containers = (*spec.init_containers, *spec.containers)
    return {
        name
        for container in containers
        for name in (*container.resources.requests, *container.resources.limits)
    }


def _container_requests(where: str, container: Container) -> Totals:
    return _read_requirements(f"{where}.resources", container.resources)


def _read_requirements(where: str, resources: PodResourceRequirements) -> Totals:
    """Return requests; where a resource has only a limit, the limit is the request."""
    limits = {
        name: read_amount(f"{where}.limits.{name}", name, value) for name, value in resources.limits.items()
    }
    requests = {
        name: read_amount(f"{where}.requests.{name}", name, value)
        for name, value in resources.requests.items()
    }
    return {**limits, **requests}


def read_amount(where: str, name: str, value: Amount) -> int:
    """Read one amount in the unit of its resource in totals."""
    if name == CPU:
        return amounts.milli(where, value)
    return amounts.quantity(where, value) if in_bytes(name) else amounts.whole(where, value)


def in_bytes(name: str) -> bool:
    """Return whether a resource is counted in bytes."""
    return name == MEMORY or name in _STORAGE or name.startswith("hugepages-")


def _sum(one: int, other: int) -> int:
    return one + other


def _combine(one: Totals, other: Totals, operation: Callable[[int, int], int]) -> Totals:
    names: Iterable[str] = {**one, **other}
    return {name: operation(one.get(name, 0), other.get(name, 0)) for name in names}
