"""The monitor of one machine, and the NVML session that it keeps open."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from fairlead.catalog import Catalog
from fairlead.nvml import Gpu, GpuReading, Health
from fairlead.serve.agent.monitor import NvmlReconnector, open_monitor
from fairlead.telemetry import Metric
from fairlead.units import Seconds
from tests.worlds import X86, World, memory, pci

FIRST, SECOND = "0000:01:00.0", "0000:02:00.0"
SILENT = GpuReading(None, None, None, None, None, None, None, None, None, None)


@dataclass
class Driver:
    """An NVIDIA driver: a session lists the GPUs that were present when it was opened."""

    addresses: list[str] = field(default_factory=list)
    loaded: bool = True
    opened: int = 0
    closed: int = 0
    health: dict[int, Health] = field(default_factory=dict)
    events: list[tuple[int, int]] = field(default_factory=list)

    @contextmanager
    def session(self) -> Iterator["FakeSession | None"]:
        self.opened += 1
        yield FakeSession(tuple(self.addresses), self.health, self.events) if self.loaded else None
        self.closed += 1


@dataclass(frozen=True)
class FakeSession:
    """An open session."""

    addresses: tuple[str, ...]
    health: dict[int, Health] = field(default_factory=dict)
    events: list[tuple[int, int]] = field(default_factory=list)

    def gpus(self, expected: Collection[str] = ()) -> list[Gpu]:
        rows = enumerate(self.addresses)
        return [Gpu(index, address, "T4", "", None, None, "550", None) for index, address in rows]

    def reading(self, index: int) -> GpuReading | None:
        health = self.health.get(index)
        return None if health is None else replace(SILENT, health=health)

    def xids(self) -> dict[int, list[int]]:
        events = list(self.events)
        self.events.clear()
        return {index: [xid for at, xid in events if at == index] for index in range(len(self.addresses))}


def test_a_session_is_kept_open() -> None:
    driver = Driver([FIRST])
    session = NvmlReconnector(driver.session)
    for _ in range(3):
        assert [gpu.address for gpu in session.gpus(frozenset({FIRST}))] == [FIRST]
    session.close()
    assert (driver.opened, driver.closed) == (1, 1)


def test_a_new_gpu_appears_in_a_new_session() -> None:
    driver = Driver([FIRST])
    session = NvmlReconnector(driver.session)
    session.gpus(frozenset({FIRST}))
    driver.addresses.append(SECOND)
    assert len(session.gpus(frozenset({FIRST, SECOND}))) == 2
    assert (driver.opened, driver.closed) == (2, 1)


def test_a_gpu_that_nvml_cannot_open_causes_one_reopening_only() -> None:
    driver = Driver([FIRST])
    session = NvmlReconnector(driver.session)
    for _ in range(5):
        session.gpus(frozenset({FIRST, SECOND}))
    assert driver.opened == 2


def test_a_driver_that_is_loaded_later_is_used_from_then_on() -> None:
    driver = Driver([FIRST], loaded=False)
    session = NvmlReconnector(driver.session)
    assert session.gpus(frozenset()) == []
    assert session.reading(0) is None
    driver.loaded = True
    assert len(session.gpus(frozenset({FIRST}))) == 1
    session.close()
    assert driver.opened == driver.closed


def test_scans_and_samples_the_machine_below_the_root(world: World, catalog: Catalog) -> None:
    link = "8.0 GT/s x1 of 8.0 GT/s x4"
    files = {**pci(FIRST, "1e60:2864", driver="hailo", link=link), "/proc/cpuinfo": X86, **memory(4)}
    with open_monitor(world(files).root, catalog) as monitor:
        inventory = monitor.scan()
        samples = monitor.sample(inventory, Seconds(0), Seconds(0))
    assert {acc.kind for acc in inventory.accelerators} == {"npu", "cpu"}
    assert (Metric.LINK, 8e9) in {(item.metric, item.value) for item in samples}
