"""Pod counts by node, for pod affinity and anti-affinity, topology spread and host ports."""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairlead.request import HostPort, PodAffinityTerm, Request, Selector

Counts = NDArray[np.int32]
Key = TypeVar("Key")


class SelectedPods(NamedTuple):
    """The pods that a term selects."""

    selector: Selector
    namespaces: tuple[str, ...]
    """`*` among them: every namespace."""

    def includes(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether the term selects a pod with this namespace and these labels."""
        in_namespace = "*" in self.namespaces or namespace in self.namespaces
        return in_namespace and self.selector.selects(labels)


class IntersectedPods(NamedTuple):
    """The pods that every one of some groups selects."""

    groups: tuple[SelectedPods, ...]

    def includes(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether every group selects the pod."""
        return all(group.includes(namespace, labels) for group in self.groups)


class ExistingPodTerm(NamedTuple):
    """A term of pods that are already placed; it also applies to pods that are placed later."""

    term: PodAffinityTerm
    namespaces: tuple[str, ...]
    anti: bool
    """Whether it is a term of anti-affinity."""

    @property
    def pods(self) -> SelectedPods:
        """The pods that the term selects."""
        return SelectedPods(self.term.selector, self.namespaces)


def pods_selected_by(term: PodAffinityTerm, namespace: str) -> SelectedPods:
    """Return the pods that a term of a pod in that namespace selects."""
    return SelectedPods(term.selector, term.namespaces or (namespace,))


class PodCounts:
    """Counts by row; a group is counted from the first query for it on."""

    def __init__(self) -> None:
        self._size = 0
        self._pods: dict[str, tuple[Request, int]] = {}
        self._groups: dict[SelectedPods | IntersectedPods, Counts] = {}
        self.existing_terms: dict[ExistingPodTerm, Counts] = {}
        self.ports: dict[HostPort, Counts] = {}

    def grow(self, rows: int) -> None:
        """Extend the counts to that many rows."""
        self._size = max(rows, self._size)
        _widen(self._groups, self._size)
        _widen(self.existing_terms, self._size)
        _widen(self.ports, self._size)

    def add(self, request: Request, row: int) -> None:
        """Count a pod that was placed."""
        self._pods[request.id] = (request, row)
        self._count(request, row, 1)

    def remove(self, request: Request) -> None:
        """Stop counting a pod."""
        _, row = self._pods.pop(request.id)
        self._count(request, row, -1)

    def counts_of(self, group: SelectedPods | IntersectedPods) -> Counts:
        """Return how many pods of a group each row has."""
        if group not in self._groups:
            counts = np.zeros(self._size, np.int32)
            for request, row in self._pods.values():
                counts[row] += group.includes(request.namespace, request.labels)
            self._groups[group] = counts
        return self._groups[group]

    def _count(self, request: Request, row: int, step: int) -> None:
        for group, counts in self._groups.items():
            if group.includes(request.namespace, request.labels):
                counts[row] += step
        for anti, terms in ((False, request.pod_affinity), (True, request.pod_anti_affinity)):
            for term in terms:
                existing = ExistingPodTerm(term, term.namespaces or (request.namespace,), anti)
                self._step(self.existing_terms, existing, row, step)
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
