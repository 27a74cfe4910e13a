"""Who is where: counts by node of the pods that rules about neighbours, spread and ports ask for."""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairlead.request import HostPort, PodAffinityTerm, Request, Selector

Counts = NDArray[np.int32]
Key = TypeVar("Key")


class SelectedPods(NamedTuple):
    """Pods that a rule speaks of."""

    selector: Selector
    namespaces: tuple[str, ...]
    """`*` among them: every namespace."""

    def has(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Say whether a pod is one of them."""
        near = "*" in self.namespaces or namespace in self.namespaces
        return near and self.selector.selects(labels)


class IntersectedPods(NamedTuple):
    """Pods that are in every one of some groups."""

    groups: tuple[SelectedPods, ...]

    def has(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Say whether a pod is in all of them."""
        return all(group.has(namespace, labels) for group in self.groups)


class ExistingPodTerm(NamedTuple):
    """A rule that pods already placed have about those that come later."""

    rule: PodAffinityTerm
    namespaces: tuple[str, ...]
    pod_anti_affinity: bool

    @property
    def group(self) -> SelectedPods:
        """The pods that it speaks of."""
        return SelectedPods(self.rule.selector, self.namespaces)


def pods_selected_by(rule: PodAffinityTerm, namespace: str) -> SelectedPods:
    """Return the pods that a rule of a pod in that namespace speaks of."""
    return SelectedPods(rule.selector, rule.namespaces or (namespace,))


class PodCounts:
    """Counts by row; a group is counted from the first time that somebody asks for it."""

    def __init__(self) -> None:
        self._size = 0
        self._pods: dict[str, tuple[Request, int]] = {}
        self._groups: dict[SelectedPods | IntersectedPods, Counts] = {}
        self.held: dict[ExistingPodTerm, Counts] = {}
        self.ports: dict[HostPort, Counts] = {}

    def grow(self, rows: int) -> None:
        """Make room for so many nodes."""
        self._size = max(rows, self._size)
        _widen(self._groups, self._size)
        _widen(self.held, self._size)
        _widen(self.ports, self._size)

    def enter(self, request: Request, row: int) -> None:
        """Count a pod that was placed."""
        self._pods[request.id] = (request, row)
        self._count(request, row, 1)

    def leave(self, request: Request) -> None:
        """Count a pod no more."""
        _, row = self._pods.pop(request.id)
        self._count(request, row, -1)

    def of(self, group: SelectedPods | IntersectedPods) -> Counts:
        """Return how many pods of a group each row has."""
        if group not in self._groups:
            counts = np.zeros(self._size, np.int32)
            for request, row in self._pods.values():
                counts[row] += group.has(request.namespace, request.labels)
            self._groups[group] = counts
        return self._groups[group]

    def _count(self, request: Request, row: int, step: int) -> None:
        for group, counts in self._groups.items():
            if group.has(request.namespace, request.labels):
                counts[row] += step
        for apart, rules in ((False, request.pod_affinity), (True, request.pod_anti_affinity)):
            for rule in rules:
                held = ExistingPodTerm(rule, rule.namespaces or (request.namespace,), apart)
                self._step(self.held, held, row, step)
        for port in request.ports:
            self._step(self.ports, port, row, step)

    def _step(self, table: dict[Key, Counts], key: Key, row: int, step: int) -> None:
        if key not in table:
            table[key] = np.zeros(self._size, np.int32)
        table[key][row] += step
        if step < 0 and not table[key].any():
            del table[key]


def _widen(table: dict[Key, Counts], size: int) -> None:
    for key, counts in table.items():
        if len(counts) < size:
            table[key] = np.concatenate([counts, np.zeros(size - len(counts), np.int32)])
