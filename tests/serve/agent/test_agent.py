"""The agent with a clock and a machine of the test's own."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fairlead.errors import CaptureError
from fairlead.inventory import Accelerator, Inventory, Machine, State
from fairlead.serve.agent.agent import Agent, AgentClock, UseReader, changes
from fairlead.settings.agent import AgentSettings
from fairlead.telemetry import Metric, Sample
from fairlead.units import Bytes, Seconds
from fairlead.use import AttributedUse, ContainerUse
from tests.accelerators import accelerator

SETTINGS = AgentSettings(sweep=Seconds(100), sample=Seconds(10), node="node-1")


@dataclass
class FakeMachine:
    """A machine with a scripted inventory that counts its scans and samples."""

    accelerators: list[Accelerator] = field(default_factory=lambda: [accelerator()])
    now: float = 0.0
    scans: int = 0
    samples: int = 0
    broken: bool = False
    with_health: list[Accelerator] | None = None
    lines: list[str] = field(default_factory=list)

    def scan(self) -> Inventory:
        self.scans += 1
        if self.broken:
            raise CaptureError("the root is gone")
        return Inventory(Machine(), tuple(self.accelerators))

    def sample(self, inventory: Inventory, now: Seconds, date: Seconds) -> tuple[Sample, ...]:
        self.samples += 1
        return tuple(Sample(acc.id, Metric.BUSY, 0.5) for acc in inventory.accelerators)

    def inventory_with_health(self) -> Inventory:
        return Inventory(
            Machine(), tuple(self.accelerators if self.with_health is None else self.with_health)
        )

    def agent(self, use: UseReader | None = None) -> Agent:
        clock = AgentClock(self.clock(0.0), self.clock(1e9))
        return Agent(SETTINGS, self, self.lines.append, clock, use=use)

    def clock(self, zero: float) -> Callable[[], float]:
        return lambda: zero + self.now


def test_scans_seldom_and_samples_often() -> None:
    machine = FakeMachine()
    agent = machine.agent()
    for second in range(251):
        machine.now = second
        agent.step()
    assert (machine.scans, machine.samples) == (3, 26)


def test_step_returns_the_time_until_the_next_work_is_due() -> None:
    machine = FakeMachine()
    agent = machine.agent()
    assert agent.step() == Seconds(10)
    machine.now = 4.0
    agent.on_uevent()
    assert agent.step() == Seconds(1)


def test_a_uevent_causes_a_scan_that_is_counted_as_such() -> None:
    machine = FakeMachine()
    agent = machine.agent()
    agent.step()
    machine.now = 3.0
    agent.on_uevent()
    machine.now = 4.0
    agent.step()
    assert machine.scans == 2
    page = agent.answer("/metrics").body
    assert b'fairlead_scans_total{trigger="start"} 1.0' in page
    assert b'fairlead_scans_total{trigger="uevent"} 1.0' in page


def test_scrapes_touch_no_hardware_and_render_once_per_sample() -> None:
    machine = FakeMachine()
    agent = machine.agent()
    agent.step()
    pages = [agent.answer("/metrics").body for _ in range(100)]
    assert all(page is pages[0] for page in pages)
    assert (machine.scans, machine.samples) == (1, 1)
    assert b"fairlead_accelerator_busy_ratio" in pages[0]


@dataclass
class FakeUse:
    """The use of one pod, while it runs."""

    running: bool = True

    def use(self, inventory: Inventory) -> AttributedUse:
        rows = [ContainerUse("uid", acc.id, "shop", "web", memory=Bytes(7)) for acc in inventory.accelerators]
        return AttributedUse(up=True, containers=tuple(rows) if self.running else ())


def test_the_use_of_a_pod_is_shown_at_the_next_sample_and_no_longer_after_its_end() -> None:
    machine, use = FakeMachine(), FakeUse(running=False)
    agent = machine.agent(use)
    shown = []
    for running in (False, True, False):
        use.running = running
        agent.step()
        shown.append(b'pod="web"' in agent.page())
        machine.now += 10.0
    assert shown == [False, True, False]


def test_is_ready_after_the_first_scan_until_it_grows_stale() -> None:
    machine = FakeMachine(broken=True)
    agent = machine.agent()
    agent.step()
    assert agent.answer("/healthz").status == 200
    assert agent.answer("/readyz").status == 503
    assert machine.lines == ["scan failed: the root is gone"]
    machine.broken = False
    machine.now = 100.0
    agent.step()
    assert agent.answer("/readyz").status == 200
    machine.broken = True
    machine.now = 401.0
    agent.step()
    assert agent.answer("/readyz").status == 503
    assert b"fairlead_accelerator_info" in agent.answer("/metrics").body


def test_answers_its_few_pages_and_no_others() -> None:
    agent = FakeMachine().agent()
    paths = ["/", "/metrics", "/healthz", "/readyz", "/metrics/", "", "/../etc/passwd"]
    assert [agent.answer(path).status for path in paths] == [200, 200, 200, 503, 404, 404, 404]


def test_log_lines_name_accelerators_that_appeared_disappeared_or_changed() -> None:
    one, two = accelerator("pci:0000:01:00.0"), accelerator("pci:0000:02:00.0")
    overheated = replace(one, state=State.USABLE, reason="too hot")
    before, after = Inventory(Machine(), (one, two)), Inventory(Machine(), (overheated,))
    assert changes(before, after) == [
        "pci-0000-02-00-0: Test Device is gone",
        "pci-0000-01-00-0: Test Device is usable (too hot)",
    ]
    assert changes(before, before) == []
    assert changes(after, before)[-1] == "pci-0000-02-00-0: Test Device is healthy"
