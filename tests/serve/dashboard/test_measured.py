"""What a cluster's dashboard measures, and what it says where it cannot."""

import pytest

from fairlead.catalog import load
from fairlead.cluster.config.types import ClusterConfig
from fairlead.serve.dashboard.cluster.heat import Heat, combine, read_page
from fairlead.serve.dashboard.cluster.source import ClusterSettings, ClusterSource
from fairlead.units import Bytes
from fairlead.usage.source import UsageSettings
from fairlead.use import DeviceKey, UseFault, UseReport, UseSample

PAGE = b"""# TYPE fairlead_accelerator_power_watts gauge
fairlead_accelerator_power_watts{id="gpu-0",model="t4"} 61.5
fairlead_accelerator_temperature_celsius{id="gpu-0",model="t4",sensor="gpu"} 70
fairlead_accelerator_temperature_celsius{id="gpu-0",model="t4",sensor="memory"} 81
fairlead_accelerator_temperature_celsius{id="gpu-1",sensor="gpu"} NaN
fairlead_accelerator_temperature_limit_celsius{id="gpu-0",sensor="gpu"} 96
fairlead_accelerator_power_watts{model="none"} 5
"""


def test_page_of_an_agent_gives_power_and_the_hottest_sensor() -> None:
    found = combine(read_page(PAGE, "n"))
    assert found == {DeviceKey("n", "gpu-0"): Heat(61.5, 81.0)}


def test_garbage_is_no_value() -> None:
    assert read_page(b"\xff\x00 fairlead_accelerator_power_watts{", "n") == []
    assert combine([("fairlead_accelerator_power_watts", DeviceKey("n", "d"), 1e30)]) == {}


@pytest.fixture
def source() -> ClusterSource:
    settings = ClusterSettings(UsageSettings(url="http://prometheus:9090"))
    now = iter(range(1000, 2000))
    return ClusterSource(ClusterConfig("https://none"), load(), settings, lambda: float(next(now)))


def test_prometheus_that_is_gone_is_stale_until_it_answers(source: ClusterSource) -> None:
    faults = {UseFault.UNREACHABLE: 1}
    source.show_use(UseReport(1.0, "prometheus", faults=faults, detail="it refuses connections"))
    stale = source.board.table_stale("devices")
    assert stale is not None
    assert stale.reason == "it refuses connections"
    source.show_use(UseReport(2.0, "prometheus", faults=faults, detail="no route to it"))
    again = source.board.table_stale("devices")
    assert again is not None
    assert (again.since, again.reason) == (stale.since, "no route to it")
    device = {DeviceKey("n", "d"): UseSample(3.0, Bytes(1))}
    source.show_use(UseReport(3.0, "prometheus", device))
    assert source.board.table_stale("devices") is None


def test_one_agent_that_is_gone_makes_no_table_stale(source: ClusterSource) -> None:
    device = {DeviceKey("n", "d"): UseSample(3.0, Bytes(1))}
    source.show_use(UseReport(3.0, "agents", device, faults={UseFault.UNREACHABLE: 1}, detail="m: refused"))
    assert source.board.table_stale("devices") is None
