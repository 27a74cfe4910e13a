"""Pods that were let pass and are not yet seen anywhere: each may be on any node that it was let pass to.

kube-scheduler decides for the next pod before this one's binding can be seen, and does not say which node it
took. So whoever comes next must fit whatever became of those before.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.score.candidates import filter_rows
from fairlead.schedule.score.survey import NodeSurvey
from fairlead.schedule.state.columns import Ints, Mask

EXPIRES_AFTER: Final = 30.0
"""Seconds after which nothing is expected of a pod any more: kube-scheduler has come back to it, or will."""


@dataclass(frozen=True, slots=True)
class UnconfirmedPod:
    """One pod that may be on any of some nodes."""

    rows: Ints
    devices: int
    memory: int
    """The most that it may take, of all accelerators together."""
    compute: int
    """The most that it may take of an accelerator."""
    since: float


class UnconfirmedPods:
    """All of them, summed up by row."""

    def __init__(self) -> None:
        self._of: dict[str, UnconfirmedPod] = {}
        self._sums: Ints = np.zeros((0, 3), np.int64)

    def __len__(self) -> int:
        return len(self._of)

    def add(self, uid: str, compiled: CompiledRequest, rows: Ints, now: float) -> None:
        """Note that a pod may soon be on one of these rows."""
        memory, compute = int(compiled.memory.max(initial=0)), int(compiled.compute.max(initial=0))
        self.put(uid, UnconfirmedPod(rows, compiled.count, compiled.count * memory, compute, now))

    def put(self, uid: str, doubt: UnconfirmedPod) -> None:
        """Doubt where a pod is, in place of what was doubted of it before."""
        self.drop(uid)
        size = int(doubt.rows.max(initial=-1)) + 1
        if size > len(self._sums):
            self._sums = np.concatenate([self._sums, np.zeros((size - len(self._sums), 3), np.int64)])
        self._of[uid] = doubt
        self._count(doubt, 1)

    def drop(self, uid: str) -> UnconfirmedPod | None:
        """Doubt no more: it is known where the pod is, or that it is nowhere. Return what was doubted."""
        doubt = self._of.pop(uid, None)
        if doubt is not None:
            self._count(doubt, -1)
        return doubt

    def expire(self, now: float) -> None:
        """Forget pods of which nothing was heard for long."""
        for uid in [uid for uid, doubt in self._of.items() if now - doubt.since > EXPIRES_AFTER]:
            self.drop(uid)

    def may_hold_pods(self, rows: Ints) -> Mask:
        """Say on which rows somebody may be."""
        if not self._of:
            return np.zeros(len(rows), np.bool_)
        found: Mask = self._known(rows)[:, 0] > 0
        return found

    def certain_fits(self, found: NodeSurvey) -> Mask:
        """Say which nodes take a request wherever those are that were let pass before."""
        sure = found.fits.copy()
        at = np.flatnonzero(sure)
        at = at[self.may_hold_pods(found.rows[at])]
        if len(at):
            rows, free = filter_rows(found.compiled, found.rows[at])
            fine = np.isin(found.rows[at], rows[self.rows_with_room(found.compiled, rows, free)])
            sure[at[~fine]] = False
        return sure

    def rows_with_room(self, compiled: CompiledRequest, rows: Ints, free: Mask) -> Mask:
        """Say which rows have room for a request wherever those in doubt are.

        `free` marks the accelerators that would do if nobody came. Two things are sure, whichever
        accelerators the others get: each spoils no more of them than it takes, and one that has room for all
        of them and this one is not spoilt at all.
        """
        columns, sums = compiled.cluster.columns, self._known(rows)
        devices, memory, compute = (sums[:, at] for at in range(3))
        kind = columns.kind.take(rows, axis=0)
        roomy = free & ~compiled.exclusive[kind]
        roomy &= columns.free_memory.take(rows, axis=0) >= compiled.least_memory[kind] + memory[:, None]
        roomy &= columns.free_compute.take(rows, axis=0) >= compiled.least_compute[kind] + compute[:, None]
        sure: Mask = (free.sum(axis=1) - devices >= compiled.count) | (roomy.sum(axis=1) >= compiled.count)
        if compiled.any_node_memory:  # what accelerators share with the node, all of them share
            lent = np.where(free, compiled.node_memory[kind], 0).max(axis=1, initial=0) * compiled.count
            left = columns.memory[rows] - compiled.request.memory
            sure &= (lent == 0) | (left >= lent + memory)
        return sure

    def _known(self, rows: Ints) -> Ints:
        """Return the sums of rows; nobody can be on rows that came after the last was let pass."""
        found = np.zeros((len(rows), 3), np.int64)
        old = rows < len(self._sums)
        found[old] = self._sums[rows[old]]
        return found

    def _count(self, doubt: UnconfirmedPod, sign: int) -> None:
        self._sums[doubt.rows] += np.array([doubt.devices, doubt.memory, doubt.compute], np.int64) * sign
