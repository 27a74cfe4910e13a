"""Replan a run: take its status once in a window, measure links that carry no frames, and propose moves."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from fairlead.errors import FairleadError
from fairlead.pipeline.replan.moves import ProposedMove
from fairlead.pipeline.replan.rates import WINDOW, Route, RunRates
from fairlead.pipeline.replan.replanner import Replanner

MeasureLink = Callable[[Route], float]
"""Returns the bytes a second of a link, after some tenths of a second; FairleadError where it cannot."""


class RunReplanning:
    """The `MovePlanner` of a run."""

    def __init__(self, replanner: Replanner, measure_link: MeasureLink, window: float = WINDOW) -> None:
        """Take how many seconds pass from one measurement to the next."""
        self._replanner = replanner
        self._measure_link = measure_link
        self._rates = RunRates()
        self._window = window
        self._next = 0.0
        self._probes: SimpleQueue[tuple[Route, float]] = SimpleQueue()
        self._probe: threading.Thread | None = None

    def propose(self, status: Mapping[str, Any], now: float) -> ProposedMove | None:
        """Return a move that pays, at most once in a window and while every host is connected."""
        if now < self._next:
            return None
        self._next = now + self._window
        while not self._probes.empty():
            self._replanner.on_probe(*self._probes.get(), now)
        self._probe_links(now)
        proposed = self._replanner.observe(self._rates.measure(status, now), now)
        connected = all(host["connected"] for host in status.get("hosts", {}).values())
        return proposed if connected else None

    def on_move_ended(self, nodes: Mapping[str, str] | None, now: float) -> None:
        """Take where stages are after a move; None: it was given up."""
        self._rates.reset()
        if nodes is None:
            self._replanner.on_given_up(now)
        else:
            self._replanner.on_moved(nodes, now)

    def close(self) -> None:
        """End nothing: a probe ends by itself, and its thread with the process."""

    def _probe_links(self, now: float) -> None:
        if self._probe is not None and self._probe.is_alive():
            return
        route = self._replanner.due_probe(now)
        if route is not None:
            self._probe = threading.Thread(target=self._measure, args=(route,), name="probe", daemon=True)
            self._probe.start()

    def _measure(self, route: Route) -> None:
        with suppress(FairleadError):  # it is measured again later
            self._probes.put((route, self._measure_link(route)))
