"""Unconfirmed pods: the filter let them pass, but no binding is visible yet; each may be on any such node.

kube-scheduler decides for the next pod before the binding of this one is visible, and does not report which
node it chose. So the next pod must fit wherever the unconfirmed pods are.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.score.candidates import filter_rows
from fairlead.schedule.score.survey import NodeSurvey
from fairlead.schedule.state.columns import Ints, Mask

EXPIRES_AFTER: Final = 30.0
"""Seconds after which a pod is no longer unconfirmed: kube-scheduler has retried it by then, or will."""
UNSCHEDULABLE_AFTER: Final = 5.0
"""The same for a pod marked unschedulable: the mark may be of the attempt before the one that passed."""


@dataclass(frozen=True, slots=True)
class UnconfirmedPod:
    """One pod that may be on any of these rows."""

    rows: Ints
    devices: int
    memory: int
    """The most memory that it may take, of all accelerators together."""
    compute: int
    """The most compute that it may take of one accelerator."""
    since: float
    is_alone: bool = False
    """Whether its accelerator is known as long as no other unconfirmed pod may be on its rows."""


class UnconfirmedPods:
    """All unconfirmed pods, summed by row."""

    def __init__(self) -> None:
        self._pods: dict[str, UnconfirmedPod] = {}
        self._sums: Ints = np.zeros((0, 6), np.int64)
        """By row: accelerators, memory and compute; and the same of the pods that are alone."""

    def __len__(self) -> int:
        return sum(not pod.is_alone for pod in self._pods.values())

    def add(self, uid: str, compiled: CompiledRequest, rows: Ints, now: float) -> None:
        """Add a pod that may be bound to any one of these rows."""
        memory = int((compiled.memory + compiled.headroom).max(initial=0))
        compute = int(compiled.compute.max(initial=0))
        self.put(uid, UnconfirmedPod(rows, compiled.count, compiled.count * memory, compute, now))

    def put(self, uid: str, pod: UnconfirmedPod) -> None:
        """Add an unconfirmed pod, or replace it."""
        self.drop(uid)
        size = int(pod.rows.max(initial=-1)) + 1
        if size > len(self._sums):
            self._sums = np.concatenate([self._sums, np.zeros((size - len(self._sums), 6), np.int64)])
        self._pods[uid] = pod
        self._count(pod, 1)

    def drop(self, uid: str) -> UnconfirmedPod | None:
        """Remove a pod, because it is bound or gone, and return it."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._count(pod, -1)
        return pod

    def on_unschedulable(self, uid: str) -> None:
        """Let a pod expire soon: kube-scheduler has bound it nowhere, now or in the attempt before."""
        pod = self._pods.get(uid)
        if pod is not None:
            self.put(uid, replace(pod, since=pod.since - EXPIRES_AFTER + UNSCHEDULABLE_AFTER))

    def expire(self, now: float) -> None:
        """Remove pods that have been unconfirmed for too long."""
        for uid in [uid for uid, pod in self._pods.items() if now - pod.since > EXPIRES_AFTER]:
            self.drop(uid)

    def may_hold_pods(self, rows: Ints) -> Mask:
        """Return on which rows an unconfirmed pod may be."""
        if not self._pods:
            return np.zeros(len(rows), np.bool_)
        held: Mask = self._sums_of(rows)[:, 0] > 0
        return held

    def certain_fits(self, survey: NodeSurvey) -> Mask:
        """Return which nodes fit a request wherever the unconfirmed pods are."""
        certain = survey.fits.copy()
        at = np.flatnonzero(certain)
        at = at[self.may_hold_pods(survey.rows[at])]
        if len(at):
            rows, free = filter_rows(survey.compiled, survey.rows[at])
            fits = np.isin(survey.rows[at], rows[self.rows_with_room(survey.compiled, rows, free)])
            certain[at[~fits]] = False
        return certain

    def rows_with_room(self, compiled: CompiledRequest, rows: Ints, free: Mask) -> Mask:
        """Return which rows have room for a request wherever the unconfirmed pods are.

        `free` marks the accelerators that suffice without the unconfirmed pods. Two bounds hold, whichever
        accelerators those pods get: each pod blocks no more accelerators than it takes, and an accelerator
        with room for all of them and this request is never blocked.
        """
        columns, sums = compiled.cluster.columns, self._sums_of(rows)
        devices, memory, compute = (sums[:, at] for at in range(3))
        kind = columns.kind.take(rows, axis=0)
        has_room = free & ~compiled.exclusive[kind]
        has_room &= compiled.free_memory(rows) >= compiled.least_memory[kind] + memory[:, None]
        has_room &= columns.free_compute.take(rows, axis=0) >= compiled.least_compute[kind] + compute[:, None]
        certain: Mask = (free.sum(axis=1) - devices >= compiled.count) | (
            has_room.sum(axis=1) >= compiled.count
        )
        if compiled.any_node_memory:  # unified memory is shared by all accelerators of the node
            lent = np.where(free, compiled.node_memory[kind], 0).max(axis=1, initial=0) * compiled.count
            left = columns.memory[rows] - compiled.request.memory
            certain &= (lent == 0) | (left >= lent + memory)
        return certain

    def _sums_of(self, rows: Ints) -> Ints:
        """Return the sums of rows; zero for rows that are newer than the last unconfirmed pod."""
        sums = np.zeros((len(rows), 6), np.int64)
        old = rows < len(self._sums)
        sums[old] = self._sums[rows[old]]
        unconfirmed, alone = sums[:, :3], sums[:, 3:]
        return unconfirmed + np.where(unconfirmed[:, :1] > 0, alone, 0)

    def _count(self, pod: UnconfirmedPod, sign: int) -> None:
        part = slice(3, 6) if pod.is_alone else slice(3)
        self._sums[pod.rows, part] += np.array([pod.devices, pod.memory, pod.compute], np.int64) * sign
