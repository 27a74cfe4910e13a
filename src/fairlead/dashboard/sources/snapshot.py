"""A recorded cluster as a source: its nodes, what runs on them, and a decision for each pod that waits."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final

from fairlead.catalog import Catalog
from fairlead.dashboard.answers import SourceInfo, WhyAnswer
from fairlead.dashboard.board import Board
from fairlead.dashboard.rows import DeviceNames, device_rows, node_row, running_row, waiting_row, workload_key
from fairlead.dashboard.source import DashboardSource
from fairlead.dashboard.why import why_answer
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.placement import Decision, Placement
from fairlead.request import Request

POLICY: Final = "fairlead"
_UNDECIDED: Final = "it is being decided"


def parse_time(text: str) -> float | None:
    """Return the seconds since the epoch of a time in RFC 3339; None: it is none."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


class SnapshotSource(DashboardSource):
    """A snapshot; it never changes, but the decisions about its pending pods arrive after the rest."""

    def __init__(self, snapshot: Snapshot, path: str, catalog: Catalog, clock: Callable[[], float]) -> None:
        look = f"fairlead schedule --cluster {path}"
        commands = {
            "nodes": look,
            "devices": look,
            "workloads": f"{look} --explain",
            "models": "fairlead estimate MODEL --on all",
        }
        taken = parse_time(snapshot.taken)
        super().__init__(
            Board(commands, clock),
            SourceInfo(kind="snapshot", name=snapshot.source or path, taken=taken),
        )
        self._snapshot = snapshot
        self._command = f"{look} --explain"
        self._taken = taken
        self._decisions: Mapping[str, dict[str, Any]] = {}
        self._decided = False
        self._fill(DeviceNames(catalog))

    def _fill(self, names: DeviceNames) -> None:
        snapshot, board = self._snapshot, self.board
        on: dict[str, list[Placement]] = {}
        for placement in snapshot.placements:
            on.setdefault(placement.node, []).append(placement)
        board.replace("nodes", map(node_row, snapshot.nodes))
        rows = [device_rows(node, on.get(node.name, ()), names, {}, {}) for node in snapshot.nodes]
        board.replace("devices", [row for each in rows for row in each])
        running = [running_row(placement) for placement in snapshot.placements]
        waiting = [self._waiting(at, request) for at, request in enumerate(snapshot.pending)]
        board.replace("workloads", [*running, *waiting])

    def _waiting(self, at: int, request: Request) -> Any:
        decision = self._decisions.get(workload_key(request))
        return waiting_row(request, decision["sentence"] if decision else _UNDECIDED, at + 1)

    @asynccontextmanager
    async def running(self) -> "AsyncIterator[asyncio.Future[None]]":
        """Decide for the pods that wait, beside the server."""
        task = asyncio.create_task(self._decide())
        try:
            yield asyncio.get_running_loop().create_future()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _decide(self) -> None:
        if self._snapshot.pending:
            self._decisions = await asyncio.to_thread(_decisions, self._snapshot)
        self._decided = True
        waiting = [self._waiting(at, request) for at, request in enumerate(self._snapshot.pending)]
        self.board.apply("workloads", waiting)

    async def why(self, key: str) -> WhyAnswer | None:
        """Return the decision about a pod that waits, or where it runs."""
        moment = self._taken or self.board.clock()
        report = self._decisions.get(key) or self._placed(key)
        if report is None:
            return None
        return why_answer(
            key, report, decided=moment, source="decided by the dashboard", command=self._command
        )

    def _placed(self, key: str) -> dict[str, Any] | None:
        for placement in self._snapshot.placements:
            if workload_key(placement.request) == key:
                report = Decision(placement.request, "", placement).to_json()
                sentence = f"{placement.request.name} is on {placement.where()}"
                return {**report, "state": "bound", "sentence": sentence}
        row = self.board.tables["workloads"].rows.get(key)
        return None if row is None else {"state": "waiting", "sentence": _UNDECIDED}


def _decisions(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """Return the decision for each pod that waits; each is decided as if it were the next one."""
    from fairlead.whatif.answer import answer  # noqa: PLC0415  # slow: the engine

    document = answer(snapshot, snapshot.pending, POLICY, detailed=len(snapshot.pending) <= _DETAILED)
    decisions = document.to_json()["decisions"]
    return {f"{each['namespace']}/{each['name']}": each for each in decisions}


_DETAILED: Final = 50
"""Pods that wait, up to which each decision also has an example for each reason."""
