"""The metrics page: names, units and labels that Prometheus accepts, whatever names the hardware has."""

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from fairlead.dcgm import Names
from fairlead.inventory import Accelerator, Inventory, Link, Machine, State, Unknown
from fairlead.metrics import MetricsSnapshot, PublishStatus, render
from fairlead.offer import Form, Holder, Holding
from fairlead.telemetry import Metric, Sample
from fairlead.units import BitsPerSecond, Bytes, Ops
from fairlead.use import AttributedUse, ContainerUse
from tests.accelerators import accelerator
from tests.strategies import inventories

Series = tuple[str, frozenset[tuple[str, str]]]
NPU = replace(
    accelerator("pci:0000:01:00.0", driver="hailo", state=State.USABLE),
    memory=Bytes(1000),
    peak={"int8": Ops(26e12)},
    effective={"int8": Ops(13e12)},
    link=Link(BitsPerSecond(8e9), BitsPerSecond(32e9)),
)
CARD = replace(
    accelerator(
        "pci:000A:b1:00.0", vendor="NVIDIA", kind="gpu", driver="nvidia", uuid="GPU-1", name="NVIDIA T4"
    ),
    node="/dev/nvidia0",
)
ORIN = accelerator("platform:17000000.gpu", vendor="NVIDIA", kind="gpu", unified=True, name="Orin")
RADEON = accelerator("pci:0000:03:00.0", vendor="AMD", kind="gpu", driver="amdgpu", name="Radeon")


def series(page: bytes) -> dict[Series, float]:
    """Return every series of a page, which must be valid and contain no series twice."""
    values: dict[Series, float] = {}
    for family in text_string_to_metric_families(page.decode("utf-8")):
        assert family.documentation, family.name
        assert family.type in ("gauge", "counter"), family.name
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in values
            values[key] = sample.value
    return values


def value(page: bytes, metric: str, /, **labels: str) -> float:
    """Return the value of the one series with this name and these labels."""
    hits = [v for (n, has), v in series(page).items() if n == metric and set(labels.items()) <= has]
    assert len(hits) == 1, (metric, labels, hits)
    return hits[0]


def page_of(*accelerators: Accelerator, samples: tuple[Sample, ...] = ()) -> bytes:
    inventory = Inventory(Machine(), accelerators)
    return render(MetricsSnapshot(inventory, samples, "node-1", {"start": 1, "uevent": 2}, 0.025, 1e9))


def test_the_metrics_of_the_inventory() -> None:
    page = page_of(NPU)
    ids = {"id": NPU.id, "model": "test-device"}
    info = {"name": "Test Device", "vendor": "Test", "kind": "npu", "driver": "hailo", "bus": NPU.bus}
    assert value(page, "fairlead_accelerator_info", **ids, **info) == 1
    states = {state: value(page, "fairlead_accelerator_state", **ids, state=state) for state in State}
    assert states == {State.PRESENT: 0, State.DRIVER_BOUND: 0, State.USABLE: 1, State.HEALTHY: 0}
    assert value(page, "fairlead_accelerator_confidence", **ids) == 0.9
    assert value(page, "fairlead_accelerator_memory_bytes", **ids, unified="false") == 1000
    assert value(page, "fairlead_accelerator_peak_ops", **ids, precision="int8") == 26e12
    assert value(page, "fairlead_accelerator_effective_ops", **ids, precision="int8") == 13e12
    assert value(page, "fairlead_accelerator_link_max_bits_per_second", **ids) == 32e9


def test_samples_are_exposed_in_base_units() -> None:
    samples = (
        Sample(NPU.id, Metric.MEMORY_USED, 400.0),
        Sample(NPU.id, Metric.BUSY, 0.25),
        Sample(NPU.id, Metric.POWER, 2.5),
        Sample(NPU.id, Metric.ENERGY, 99.0),
        Sample(NPU.id, Metric.TEMPERATURE, 45.0, "chip"),
        Sample(NPU.id, Metric.TEMPERATURE_LIMIT, 85.0, "trip_point0"),
        Sample(NPU.id, Metric.CLOCK, 1e9, "core"),
        Sample(NPU.id, Metric.LINK, 8e9),
        Sample(NPU.id, Metric.RAIL_POWER, 5.0, "VDD_IN"),
        Sample("gone", Metric.BUSY, 1.0),
    )
    page = page_of(NPU, samples=samples)
    ids = {"id": NPU.id, "model": "test-device"}
    assert value(page, "fairlead_accelerator_memory_used_bytes", **ids, unified="false") == 400
    assert value(page, "fairlead_accelerator_busy_ratio") == 0.25
    assert value(page, "fairlead_accelerator_power_watts", **ids) == 2.5
    assert value(page, "fairlead_accelerator_energy_joules_total", **ids) == 99
    assert value(page, "fairlead_accelerator_temperature_celsius", **ids, sensor="chip") == 45
    assert value(page, "fairlead_accelerator_temperature_limit_celsius", sensor="trip_point0") == 85
    assert value(page, "fairlead_accelerator_clock_hertz", **ids, clock="core") == 1e9
    assert value(page, "fairlead_accelerator_link_bits_per_second", **ids) == 8e9
    assert value(page, "fairlead_power_rail_watts", rail="VDD_IN") == 5
    assert b"DCGM" not in page


def test_the_metrics_of_the_agent() -> None:
    odd = Unknown("pci:0000:05:00.0", "abcd:0001", None, "looks like one")
    page = render(
        MetricsSnapshot(Inventory(Machine(), (), (odd,)), (), "", {"start": 1, "uevent": 2}, 0.025, 1e9)
    )
    assert value(page, "fairlead_unknown_devices") == 1
    assert value(page, "fairlead_scans_total", trigger="uevent") == 2
    assert value(page, "fairlead_scan_duration_seconds") == 0.025
    assert value(page, "fairlead_last_scan_timestamp_seconds") == 1e9
    assert value(page, "fairlead_build_info") == 1


GPU_SAMPLES = (
    (Metric.MEMORY_TOTAL, 16 * 2**30, "", "FB_TOTAL", 16384),
    (Metric.MEMORY_FREE, 12 * 2**30, "", "FB_FREE", 12288),
    (Metric.MEMORY_USED, 4 * 2**30, "", "FB_USED", 4096),
    (Metric.BUSY, 0.29, "", "GPU_UTIL", 29),
    (Metric.MEMORY_BUSY, 0.05, "", "MEM_COPY_UTIL", 5),
    (Metric.POWER, 70.5, "", "POWER_USAGE", 70.5),
    (Metric.ENERGY, 12.5, "", "TOTAL_ENERGY_CONSUMPTION", 12500),
    (Metric.TEMPERATURE, 40.0, "gpu", "GPU_TEMP", 40),
    (Metric.CLOCK, 1.59e9, "core", "SM_CLOCK", 1590),
    (Metric.CLOCK, 5.001e9, "memory", "MEM_CLOCK", 5001),
)


@pytest.mark.parametrize(("metric", "measured", "detail", "name", "shown"), GPU_SAMPLES)
def test_gpus_also_have_dcgms_names_and_units(
    metric: Metric, measured: float, detail: str, name: str, shown: float
) -> None:
    page = page_of(CARD, samples=(Sample(CARD.id, metric, measured, detail),))
    labels = {"gpu": "0", "UUID": "GPU-1", "pci_bus_id": "0000000A:B1:00.0", "device": "nvidia0"}
    labels |= {"modelName": "NVIDIA T4", "Hostname": "node-1"}
    suffix = "_total" if metric is Metric.ENERGY else ""  # which the parser appends to every counter
    assert value(page, f"DCGM_FI_DEV_{name}{suffix}", **labels) == shown


NEW_NAMES = (
    (Metric.MEMORY_TOTAL, 16 * 2**30, "", "FB_CAPACITY_BYTES", 16 * 2**30),
    (Metric.MEMORY_USED, 4 * 2**30, "", "FB_USED_BYTES", 4 * 2**30),
    (Metric.MEMORY_RESERVED, 600 * 2**20, "", "FB_RESERVED_BYTES", 600 * 2**20),
    (Metric.BUSY, 0.29, "", "GPU_UTIL_RATIO", 0.29),
    (Metric.MEMORY_BUSY, 0.05, "", "MEMORY_UTIL_RATIO", 0.05),
    (Metric.POWER, 70.5, "", "BOARD_POWER_WATTS", 70.5),
    (Metric.TEMPERATURE, 40.0, "gpu", "GPU_TEMP_CELSIUS", 40),
    (Metric.CLOCK, 1.59e9, "core", "SM_CLOCK_HERTZ", 1.59e9),
    (Metric.CLOCK, 5.001e9, "memory", "MEMORY_CLOCK_HERTZ", 5.001e9),
    (Metric.XID, 79.0, "", "XID_ERROR", 79),
    (Metric.CLOCKS_EVENTS, 36.0, "", "CLOCKS_EVENT_REASONS", 36),
    (Metric.ROW_REMAP, 1.0, "failed", "ROW_REMAP_FAILED", 1),
)


@pytest.mark.parametrize(("metric", "measured", "detail", "name", "shown"), NEW_NAMES)
def test_gpus_also_have_the_names_and_units_of_dcgm_exporter_4_9(
    metric: Metric, measured: float, detail: str, name: str, shown: float
) -> None:
    page = page_of(CARD, samples=(Sample(CARD.id, metric, measured, detail),))
    labels = {"gpu": "0", "UUID": "GPU-1", "modelName": "NVIDIA T4", "hostname": "node-1"}
    assert value(page, f"DCGM_FI_DEV_{name}", **labels) == shown


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (Names.OLD, {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL_total"}),
        (Names.NEW, {"DCGM_FI_DEV_GPU_UTIL_RATIO", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL_total"}),
        (
            Names.BOTH,
            {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL_total"},
        ),
    ],
)
def test_a_page_carries_old_names_new_names_or_both(names: Names, expected: set[str]) -> None:
    samples = (
        Sample(CARD.id, Metric.BUSY, 0.5),
        Sample(CARD.id, Metric.ECC_ERRORS, 1.0, "uncorrected-volatile"),
    )
    page = render(MetricsSnapshot(Inventory(Machine(), (CARD,)), samples, "node-1", dcgm_names=names))
    exposed = {name for name, _ in series(page) if name.startswith("DCGM")}
    assert exposed == expected


def test_reasons_for_low_clocks_are_separate_series() -> None:
    page = page_of(CARD, samples=(Sample(CARD.id, Metric.CLOCKS_EVENTS, float(0x24)),))
    reasons = {
        dict(labels)["reason"]: on
        for (name, labels), on in series(page).items()
        if name == "fairlead_accelerator_clocks_event"
    }
    assert {reason for reason, on in reasons.items() if on} == {"sw_power_cap", "sw_thermal"}
    assert len(reasons) == 9


def test_errors_and_nvlink_are_labelled_by_counter_and_link() -> None:
    samples = (
        Sample(CARD.id, Metric.ECC_ERRORS, 3.0, "corrected-volatile"),
        Sample(CARD.id, Metric.NVLINK_UP, 0.0, "2"),
        Sample(CARD.id, Metric.NVLINK_ERRORS, 12.0, "replay"),
        Sample(CARD.id, Metric.NVLINK_BYTES, 1024.0, "sent"),
        Sample(CARD.id, Metric.REMAPPED_ROWS, 6.0, "correctable"),
    )
    page = page_of(CARD, samples=samples)
    assert value(page, "fairlead_accelerator_ecc_errors_total", counter="corrected-volatile") == 3
    assert value(page, "fairlead_accelerator_nvlink_up", link="2") == 0
    assert value(page, "fairlead_accelerator_nvlink_errors_total", counter="replay") == 12
    assert value(page, "fairlead_accelerator_nvlink_bytes_total", direction="sent") == 1024
    assert value(page, "fairlead_accelerator_remapped_rows_total", cause="correctable") == 6


def test_dcgms_energy_is_a_counter_under_its_own_name() -> None:
    page = page_of(CARD, samples=(Sample(CARD.id, Metric.ENERGY, 1.0),))
    assert b"\n# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n" in page
    assert b"CONSUMPTION_total" not in page


def test_dcgm_metrics_number_nvidia_gpus_first_and_use_the_first_sensor() -> None:
    samples = (
        Sample(RADEON.id, Metric.TEMPERATURE, 41.0, "edge"),
        Sample(RADEON.id, Metric.TEMPERATURE, 47.0, "junction"),
        Sample(ORIN.id, Metric.BUSY, 1.0),
        Sample(CARD.id, Metric.BUSY, 0.0),
    )
    page = page_of(RADEON, NPU, ORIN, CARD, samples=samples)
    assert value(page, "DCGM_FI_DEV_GPU_TEMP", gpu="2", modelName="Radeon", UUID=RADEON.id) == 41
    assert value(page, "DCGM_FI_DEV_GPU_UTIL", gpu="0", pci_bus_id="", device=ORIN.id) == 100
    assert value(page, "DCGM_FI_DEV_GPU_UTIL", gpu="1") == 0


@pytest.mark.parametrize(
    "name", ['a"b\\c\nd', "\ud800 and \udcff", "x" * 5000, "\x00\x1b[2J", "é\u2028🂡", ""]
)
def test_hostile_names_do_not_break_the_page(name: str) -> None:
    acc = replace(NPU, name=name, driver=name, model=name)
    samples = (Sample(acc.id, Metric.TEMPERATURE, 1.0, name), Sample(acc.id, Metric.TEMPERATURE, 2.0, name))
    values = series(page_of(acc, acc, samples=samples))
    assert [v for (n, _), v in values.items() if n == "fairlead_accelerator_temperature_celsius"] == [1.0]
    assert all(len(text) <= 200 for _, labels in values for _, text in labels)


def _samples() -> st.SearchStrategy[tuple[Sample, ...]]:
    one = st.builds(
        Sample, st.just("pci-0"), st.sampled_from(Metric), st.floats(0, 1e30), st.text(max_size=20)
    )
    return st.lists(one, max_size=20).map(tuple)


@given(inventories(), _samples(), st.text(max_size=20))
def test_every_page_can_be_parsed(inventory: Inventory, samples: tuple[Sample, ...], node: str) -> None:
    assert series(render(MetricsSnapshot(inventory, samples, node)))


ALONE = """
import sys
sys.modules["prometheus_client"] = None
from fairlead.cli.main import main
sys.exit(main(["serve", "agent", "--once"]))
"""


def test_the_agent_needs_no_library() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0
    assert "fairlead_build_info{" in done.stdout


WEB = ContainerUse("uid-1", CARD.id, "shop", "web", "main", Bytes(3 << 30), Bytes(4 << 30), 0.25)
JOB = ContainerUse("uid-2", CARD.id, "lab", "job", "main", Bytes(1 << 30), Bytes(1 << 30), None)
USED = (Sample(CARD.id, Metric.MEMORY_USED, 5 * 2**30), Sample(CARD.id, Metric.POWER, 60.0))


def use_page(use: AttributedUse | None, *holdings: Holding) -> bytes:
    inventory = Inventory(Machine(), (CARD,))
    return render(MetricsSnapshot(inventory, USED, "n", publishing=PublishStatus(holdings=holdings), use=use))


def test_the_measured_use_of_pods() -> None:
    page = use_page(AttributedUse(True, (WEB, JOB), {CARD.id: Bytes(7), "gone": Bytes(9)}))
    web = {"namespace": "shop", "pod": "web", "container": "main", "pod_uid": "uid-1", "id": CARD.id}
    assert value(page, "fairlead_pod_accelerator_memory_used_bytes", model="test-device", **web) == 3 << 30
    assert value(page, "fairlead_pod_accelerator_memory_peak_bytes", model="test-device", **web) == 4 << 30
    assert value(page, "fairlead_pod_accelerator_memory_used_bytes", pod="job") == 1 << 30
    assert value(page, "fairlead_pod_accelerator_busy_ratio") == 0.25  # that of the other is not measured
    assert value(page, "fairlead_accelerator_foreign_bytes", id=CARD.id, model="test-device") == 7
    assert value(page, "fairlead_attribution_up") == 1


def test_without_a_reading_there_are_no_zeros() -> None:
    page = use_page(AttributedUse(up=False))
    assert value(page, "fairlead_attribution_up") == 0
    assert b"fairlead_pod_accelerator_" not in page
    assert b"foreign" not in page
    assert b"fairlead_attribution_up" not in use_page(None)


def test_dcgm_series_of_a_gpu_with_one_container_carry_its_pod() -> None:
    whole = Holding(CARD.id, Form.WHOLE, Holder("shop", "web", "main"))
    for page in (use_page(None, whole), use_page(AttributedUse(True, (WEB,)), whole)):
        pod = {"namespace": "shop", "pod": "web", "container": "main"}
        assert value(page, "DCGM_FI_DEV_FB_USED", **pod) == 5 << 10
        assert value(page, "DCGM_FI_DEV_POWER_USAGE", **pod) == 60
    assert b"pod=" not in use_page(AttributedUse(True))


def test_dcgm_series_of_a_shared_gpu_are_one_for_each_container() -> None:
    page = use_page(AttributedUse(True, (WEB, JOB)))
    assert value(page, "DCGM_FI_DEV_FB_USED", pod="web", namespace="shop", container="main") == 3 << 10
    assert value(page, "DCGM_FI_DEV_FB_USED_BYTES", pod="job") == 1 << 30
    names = {(name, dict(labels).get("pod")) for name, labels in series(page) if "POWER" in name}
    assert names == {("DCGM_FI_DEV_POWER_USAGE", None), ("DCGM_FI_DEV_BOARD_POWER_WATTS", None)}
