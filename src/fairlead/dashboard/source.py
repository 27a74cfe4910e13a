"""DashboardSource: what fills the board of a dashboard, and answers about one object."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fairlead.catalog import Catalog
from fairlead.dashboard.answers import (
    FrameAnswer,
    ModelDevices,
    PipelineAnswer,
    SimulationAnswer,
    SourceInfo,
    WhyAnswer,
)
from fairlead.dashboard.board import Board
from fairlead.dashboard.predictions import ShownModel, device_models, predict
from fairlead.dashboard.row_types import ApiAnswer, SimulationRow
from fairlead.dashboard.series import DeviceHistory

if TYPE_CHECKING:
    from fairlead.estimate.knowledge import Knowledge


class DashboardSource:
    """One source; a method that has nothing to answer with returns None."""

    def __init__(self, board: Board, info: SourceInfo) -> None:
        self.board = board
        self.info = info
        self.series = DeviceHistory()
        board.listen(self.series.on_rows)
        self._simulations: dict[str, SimulationAnswer] = {}
        self._models: tuple[dict[str, ShownModel], Catalog, Knowledge] | None = None

    @asynccontextmanager
    async def running(self) -> "AsyncIterator[asyncio.Future[None]]":
        """Keep the board up to date while the context lasts; the future ends where that cannot go on."""
        yield asyncio.get_running_loop().create_future()

    @property
    def ready(self) -> bool:
        """Whether the board shows the source: it has been read once."""
        return True

    def namespaces(self) -> Collection[str]:
        """Return every namespace that a viewer may be allowed to see."""
        return {getattr(row, "namespace", "") for row in self.board.tables["workloads"].rows.values()}

    async def why(self, key: str) -> WhyAnswer | None:
        """Return why a workload is where it is, or why it waits."""
        return None

    def show_models(self, models: Mapping[str, ShownModel], catalog: Catalog, knowledge: "Knowledge") -> None:
        """Show models, by name, that `predictions` answers for."""
        self._models = dict(models), catalog, knowledge
        self.board.replace("models", [model.row() for model in models.values()])

    async def predictions(self, model: str) -> ModelDevices | None:
        """Return a model's predicted latency on every device."""
        if self._models is None or (shown := self._models[0].get(model)) is None:
            return None
        devices = device_models(self.board.tables["devices"].rows.values())
        return await asyncio.to_thread(predict, shown, devices, *self._models[1:])

    async def pipeline(self, key: str) -> PipelineAnswer | None:
        """Return a pipeline."""
        return None

    async def frame(self, key: str, frame: str) -> FrameAnswer | None:
        """Return the trace of one frame of a pipeline."""
        return None

    async def act(self, action: ApiAnswer, token: str) -> str | None:
        """Do what an action asks with the rights of the token's owner; return what was done."""
        return None

    def show_simulations(self, runs: Mapping[str, tuple[SimulationRow, SimulationAnswer]]) -> None:
        """Show simulated runs beside what the source shows."""
        self.board.add_table("simulations", "fairlead simulate")
        self.board.replace("simulations", [row for row, _ in runs.values()])
        self._simulations = {key: answer for key, (_, answer) in runs.items()}

    async def simulation(self, key: str) -> SimulationAnswer | None:
        """Return a simulated run in time."""
        return self._simulations.get(key)
