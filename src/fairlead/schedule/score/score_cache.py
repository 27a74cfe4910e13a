"""Cached scores for one shape of request: each node's best place, rescored when the node changes."""

from typing import Final

import numpy as np

from fairlead.errors import SettingsError
from fairlead.placement import Placement
from fairlead.request import Request
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.score.candidates import candidates
from fairlead.schedule.score.mix import DemandMix
from fairlead.schedule.score.policies import Policy
from fairlead.schedule.state.cluster import EngineCluster, LargestNode
from fairlead.schedule.state.columns import Ints

MEMORY: Final = 64 << 20
"""Bytes that the cached shapes may take; the least recently used shape is dropped first."""
ROW: Final = 10
"""Bytes of one row: a score and a column."""

CHUNK: Final = 1024
"""Rows that are scored at once: more would not fit the processor's cache."""


class ScoreCache:
    """For one shape and policy, the score of every row; minus infinity where the request does not fit."""

    def __init__(self, cluster: EngineCluster, request: Request, policy: Policy) -> None:
        self.compiled = CompiledRequest(cluster, request, policy.rules)
        self.policy = policy
        self._made_for: tuple[int, DemandMix, LargestNode, tuple[int, ...]] | None = None
        self._seen = 0
        self.score = np.zeros(0)
        self.column = np.zeros(0, np.int16)
        """The accelerator of the best place, for requests for one accelerator."""

    def refresh(self) -> None:
        """Rescore the rows that have changed."""
        cluster = self.compiled.cluster
        now = (cluster.columns.size, cluster.mix, cluster.scale, cluster.columns.present)
        if now == self._made_for and self._seen == cluster.changes:
            return
        rows = cluster.changed_since(self._seen) if now == self._made_for else None
        if rows is not None and cluster.last_freed <= self._seen:
            rows = rows[self.score[rows] > -np.inf]  # no capacity was freed, so a full row is still full
        self._made_for, self._seen = now, cluster.changes
        if rows is None:
            rows = cluster.rows()
            self.score = np.full(cluster.columns.size, -np.inf)
            self.column = np.zeros(cluster.columns.size, np.int16)
        self.compiled.update_kinds()
        for start in range(0, len(rows), CHUNK):
            self._score_rows(rows[start : start + CHUNK])

    def _score_rows(self, rows: Ints) -> None:
        self.score[rows] = -np.inf
        places = candidates(self.compiled, rows)
        if places is None:
            return
        scores = np.zeros(len(places.row))
        for score, weight in self.policy.scores:
            scores += weight * score(places)
        if np.isnan(scores.sum()):
            raise SettingsError(f"policy {self.policy.name!r}: a score is not a number", "correct the score")
        if self.compiled.count != 1:
            self.score[places.row] = scores
        else:
            np.maximum.at(self.score, places.row, scores)
            # Backwards, so that the first of equal accelerators is kept.
            best = np.flatnonzero(scores == self.score[places.row])[::-1]
            self.column[places.row[best]] = places.chosen[best, 0]

    def placement(self, row: int, request: Request) -> Placement:
        """Return the best place on a row for a request of this shape."""
        cluster = self.compiled.cluster
        devices = (cluster.device(row, column) for column in self.columns(row))
        return Placement(request, cluster.name(row), tuple(self.compiled.share(device) for device in devices))

    def columns(self, row: int) -> list[int]:
        """Return the accelerators of the best place on a row."""
        if self.compiled.count <= 1:
            return [int(self.column[row])] * self.compiled.count
        places = candidates(self.compiled, np.array([row], np.int64))
        return [int(column) for column in places.chosen[0]] if places else []


def scores_of(cluster: EngineCluster, request: Request, policy: Policy) -> ScoreCache:
    """Return the refreshed scores for the shape of a request."""
    key = ("scores", policy, request.shape)
    cache = cluster.memo.pop(key, None)
    if not isinstance(cache, ScoreCache):
        cache = ScoreCache(cluster, request, policy)
    cluster.memo[key] = cache
    if len(cluster.memo) > 64 + MEMORY // (ROW * cluster.columns.size + 1):
        del cluster.memo[next(iter(cluster.memo))]
    cache.refresh()
    return cache
