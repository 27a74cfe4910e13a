"""The node agent: scans the machine, measures it, and serves the results.

A scrape never touches the hardware: it returns the latest samples.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from fairlead.errors import FairleadError
from fairlead.inventory import Inventory, Machine
from fairlead.metrics import CONTENT_TYPE, MetricsSnapshot, PublishStatus, render
from fairlead.offer import Holding
from fairlead.publish.foreign import ForeignReserve, follow
from fairlead.serve.agent.scan_schedule import (
    ScanSchedule,
    after_sample,
    after_scan,
    after_uevent,
    scan_cause,
    time_until_due,
)
from fairlead.serve.web.httpd import Response
from fairlead.settings.agent import AgentSettings
from fairlead.telemetry import Sample
from fairlead.units import Seconds
from fairlead.use import AttributedUse

_STALE_SWEEPS: Final = 3
_INDEX: Final = b"""<!doctype html><title>fairlead agent</title><h1>fairlead agent</h1>
<p><a href="/metrics">/metrics</a>, <a href="/healthz">/healthz</a>, <a href="/readyz">/readyz</a></p>
"""


class MonitoredMachine(Protocol):
    """A machine that the agent monitors."""

    def scan(self) -> Inventory:
        """Scan the whole machine."""

    def sample(self, inventory: Inventory, now: Seconds, date: Seconds) -> tuple[Sample, ...]:
        """Measure the accelerators that the last scan found."""

    def inventory_with_health(self) -> Inventory:
        """Return the inventory of the last scan, with the health that the last sample showed."""


class PublisherPort(Protocol):
    """What publishes the inventory."""

    def offer(self, inventory: Inventory) -> None:
        """Publish the inventory of a scan."""

    def withhold(self, withheld: tuple[Holding, ...]) -> None:
        """Offer less by what processes outside pods use."""

    @property
    def failed(self) -> str:
        """Why publishing ended without a call of `stop`; empty while it runs."""

    def problem(self) -> str:
        """Return why the inventory is not fully published yet; empty when it is."""

    def snapshot(self) -> PublishStatus:
        """Return the publisher's counters."""


class UseReader(Protocol):
    """What reads the use of accelerators by pod."""

    def use(self, inventory: Inventory) -> AttributedUse:
        """Return the present use."""


@dataclass(frozen=True, slots=True)
class AgentClock:
    """The time: `now` never steps back, `date` is that of the calendar."""

    now: Callable[[], float] = time.monotonic
    date: Callable[[], float] = time.time


class Agent:
    """The agent's state: the latest inventory and samples, and the schedule of scans."""

    def __init__(
        self,
        settings: AgentSettings,
        machine: MonitoredMachine,
        say: Callable[[str], None],
        clock: AgentClock | None = None,
        publisher: PublisherPort | None = None,
        use: UseReader | None = None,
    ) -> None:
        self._publisher = publisher
        self._use = use
        self._reserve = ForeignReserve()
        self._settings = settings
        self._machine = machine
        self._say = say
        self._clock = clock or AgentClock()
        self._snapshot = MetricsSnapshot(
            Inventory(Machine()), node=settings.node, dcgm_names=settings.dcgm_names
        )
        self._scanned: Seconds | None = None
        self._page = b""
        now = self._now()
        self._schedule = ScanSchedule(sweep_at=now, sample_at=now)

    def step(self) -> Seconds:
        """Do what is due, and return the time until the next work is due."""
        cause = scan_cause(self._schedule, self._now())
        if cause:
            self.scan(cause if self._scanned is not None else "start")
        if self._now() >= self._schedule.sample_at:
            self.sample()
        return time_until_due(self._schedule, self._now())

    def scan(self, cause: str) -> None:
        """Scan the whole machine; a scan that fails keeps the last inventory, which then grows stale."""
        start = self._now()
        try:
            inventory = self._machine.scan()
        except (OSError, FairleadError) as error:
            self._say(f"scan failed: {error}")
        else:
            scans = Counter(self._snapshot.scans) + Counter({cause: 1})
            self._scanned = self._now()
            self._snapshot = replace(
                self._snapshot,
                scans=dict(scans),
                scan_seconds=self._scanned - start,
                scanned_at=self._clock.date(),
            )
            self._update_inventory(inventory)
        self._schedule = after_scan(self._schedule, self._now(), self._settings)

    def sample(self) -> None:
        """Measure every accelerator."""
        date = Seconds(self._clock.date())
        samples = self._machine.sample(self._snapshot.inventory, self._now(), date)
        inventory = self._machine.inventory_with_health()
        if self._scanned is not None and inventory != self._snapshot.inventory:
            self._update_inventory(inventory)
        use = self._use.use(inventory) if self._use else None
        self._withhold(use)
        published = self._publisher.snapshot() if self._publisher else None
        self._snapshot = replace(self._snapshot, samples=samples, publishing=published, use=use)
        self._page = b""
        self._schedule = after_sample(self._schedule, self._now(), self._settings)

    def on_uevent(self) -> None:
        """Schedule a scan: the kernel reported a changed device."""
        self._schedule = after_uevent(self._schedule, self._now(), self._settings)

    def page(self) -> bytes:
        """Return the metrics page, rendered at most once per sample."""
        self._page = self._page or render(self._snapshot)
        return self._page

    def answer(self, path: str) -> Response:
        """Answer the request for a page."""
        if path == "/metrics":
            return Response(200, self.page(), CONTENT_TYPE)
        if path == "/healthz":
            failed = self._publisher.failed if self._publisher else ""
            return Response(503, f"{failed}\n".encode()) if failed else Response(200, b"alive\n")
        if path == "/readyz":
            return self._ready()
        if path == "/":
            return Response(200, _INDEX, "text/html; charset=utf-8")
        return Response(404, b"no such page\n")

    def _ready(self) -> Response:
        if self._scanned is None:
            return Response(503, b"not scanned yet\n")
        age = self._now() - self._scanned
        if age > _STALE_SWEEPS * self._settings.sweep:
            return Response(503, f"the last successful scan is {age:.0f} s old\n".encode())
        problem = self._publisher.problem() if self._publisher else ""
        return Response(503, f"{problem}\n".encode()) if problem else Response(200, b"ready\n")

    def _update_inventory(self, inventory: Inventory) -> None:
        """Log what changed, and publish the new inventory."""
        for line in changes(self._snapshot.inventory, inventory):
            self._say(line)
        self._snapshot = replace(self._snapshot, inventory=inventory)
        if self._publisher:
            self._publisher.offer(inventory)

    def _withhold(self, use: AttributedUse | None) -> None:
        """Let less be offered by what processes outside pods use."""
        if use is None or self._publisher is None:
            return
        self._reserve = follow(self._reserve, use.foreign)
        self._publisher.withhold(self._reserve.holdings())

    def _now(self) -> Seconds:
        return Seconds(self._clock.now())


def changes(before: Inventory, after: Inventory) -> list[str]:
    """Return log lines for an operator: accelerators that appeared, disappeared or changed their state."""
    old = {acc.id: acc for acc in before.accelerators}
    new = {acc.id: acc for acc in after.accelerators}
    removed = [f"{acc.id}: {acc.name} is gone" for acc in old.values() if acc.id not in new]
    changed = [
        f"{acc.id}: {acc.name} is {acc.state.value}{f' ({acc.reason})' if acc.reason else ''}"
        for acc in new.values()
        if acc.id not in old or (old[acc.id].state, old[acc.id].name) != (acc.state, acc.name)
    ]
    return removed + changed
