"""The observer: counters become busy shares, NVML's readings join their accelerator, nonsense is dropped."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.host import Host
from fairlead.inventory import Accelerator
from fairlead.measure import Observer
from fairlead.measure.observer import drop_implausible, nvml_index
from fairlead.nvml import Gpu, GpuReading
from fairlead.telemetry import BusyCounter, Metric, Sample, busy_share
from fairlead.units import Bytes, Celsius, Hertz, Seconds, Watts
from tests.accelerators import accelerator
from tests.strategies import hostile_worlds
from tests.worlds import Entry, World, build, pci

STAT = "cpu  {user} 0 10 {idle} 5 0 0 0 7 7\ncpu0 1 1 1 1\n"


def busy(world: World, acc: Accelerator, states: list[dict[str, Entry]]) -> list[float | None]:
    """Measure each state of a machine once, a second apart, and return the busy shares."""
    observer, shares = Observer(), []
    for second, files in enumerate(states):
        samples = observer.look(world(files), [acc], Seconds(float(second)), Seconds(0.0))
        shares.append(next((item.value for item in samples if item.metric is Metric.BUSY), None))
    return shares


def test_the_cpu_busy_share_is_the_growth_of_the_ticks(world: World) -> None:
    ticks = [(100, 900), (150, 950), (150, 950), (140, 990), (141, 1089)]
    states: list[dict[str, Entry]] = [{"/proc/stat": STAT.format(user=u, idle=i)} for u, i in ticks]
    shares = busy(world, accelerator("cpu:0", kind="cpu"), states)
    assert shares == [None, 0.5, None, None, 0.01]


@pytest.mark.parametrize(
    ("name", "step"), [("npu_busy_time_us", 250_000), ("power/runtime_active_time", 250)]
)
def test_the_npu_busy_share_is_the_growth_of_the_counter_per_second(
    world: World, name: str, step: int
) -> None:
    place = f"/sys/bus/pci/devices/0000:01:00.0/{name}"
    states: list[dict[str, Entry]] = [{place: f"{7000 + step * n}\n"} for n in range(3)]
    assert busy(world, accelerator(driver="intel_vpu"), states) == [
        None,
        pytest.approx(0.25),
        pytest.approx(0.25),
    ]


def test_the_counters_of_a_removed_accelerator_are_dropped(world: World) -> None:
    host = world({"/proc/stat": STAT.format(user=1, idle=1)})
    acc, observer = accelerator("cpu:0", kind="cpu"), Observer()
    observer.look(host, [acc], Seconds(0), Seconds(0))
    observer.look(host, [], Seconds(1), Seconds(0))
    world({"/proc/stat": STAT.format(user=9, idle=9)})
    samples = observer.look(host, [acc], Seconds(2), Seconds(0))
    assert Metric.BUSY not in {sample.metric for sample in samples}


@given(
    st.tuples(*[st.floats(allow_nan=False, allow_infinity=False, width=32)] * 2),
    st.tuples(*[st.floats(allow_nan=False, allow_infinity=False, width=32)] * 2),
)
def test_busy_shares_are_between_0_and_1(before: tuple[float, float], after: tuple[float, float]) -> None:
    share = busy_share(BusyCounter("a", *before), BusyCounter("a", *after))
    assert share is None or 0 <= share <= 1


@given(st.lists(st.builds(Sample, st.just("a"), st.sampled_from(Metric), st.floats(), st.sampled_from("xy"))))
def test_plausible_samples_are_finite_bounded_and_unique(samples: list[Sample]) -> None:
    kept = list(drop_implausible(samples))
    keys = [(item.metric, item.detail) for item in kept]
    assert len(set(keys)) == len(keys)
    assert all(math.isfinite(item.value) for item in kept)
    assert all(item.value <= 1 for item in kept if item.metric is Metric.BUSY)


@dataclass(frozen=True)
class Answers:
    """NVML with a few GPUs."""

    readings: dict[int, GpuReading]

    def reading(self, index: int) -> GpuReading | None:
        return self.readings.get(index)


FULL = GpuReading(
    memory_used=Bytes(3),
    memory_free=Bytes(5),
    memory_total=Bytes(9),
    busy_percent=50.0,
    memory_busy_percent=25.0,
    power=Watts(70.5),
    energy_joules=1234.5,
    temperature=Celsius(40),
    sm_clock=Hertz(1.5e9),
    memory_clock=Hertz(2e9),
)
SILENT = GpuReading(None, None, None, None, None, None, None, None, None, None)


def gpu(index: int, address: str, uuid: str = "") -> Gpu:
    return Gpu(index, address, "NVIDIA T4", uuid, None, None, "550.1", None)


def test_nvml_readings_become_samples(world: World) -> None:
    acc = accelerator("pci:0000:02:00.0", vendor="NVIDIA", kind="gpu", driver="nvidia")
    gpus = [gpu(0, "0000:01:00.0"), gpu(1, "0000:02:00.0")]
    nvml = Answers({0: SILENT, 1: FULL})
    samples = Observer().look(world({}), [acc], Seconds(0), Seconds(0), gpus, nvml)
    assert {(item.metric, item.detail): item.value for item in samples} == {
        (Metric.MEMORY_TOTAL, ""): 9,
        (Metric.MEMORY_USED, ""): 3,
        (Metric.MEMORY_FREE, ""): 5,
        (Metric.BUSY, ""): 0.5,
        (Metric.MEMORY_BUSY, ""): 0.25,
        (Metric.POWER, ""): 70.5,
        (Metric.ENERGY, ""): 1234.5,
        (Metric.TEMPERATURE, "gpu"): 40,
        (Metric.CLOCK, "core"): 1.5e9,
        (Metric.CLOCK, "memory"): 2e9,
    }


def test_unsupported_values_give_no_sample(world: World) -> None:
    acc = accelerator("platform:17000000.gpu", vendor="NVIDIA", kind="gpu", driver="gk20a", unified=True)
    for readings in ({0: SILENT}, {}):
        assert (
            Observer().look(world({}), [acc], Seconds(0), Seconds(0), [gpu(0, "")], Answers(readings)) == ()
        )


@pytest.mark.parametrize(
    ("acc", "index"),
    [
        (accelerator("pci:0000:02:00.0", vendor="NVIDIA"), 1),
        (accelerator("pci:0000:02:00.0", vendor="NVIDIA", uuid="GPU-a"), 0),
        (accelerator("platform:17000000.gpu", vendor="NVIDIA"), 2),
        (accelerator("pci:0000:03:00.0", vendor="NVIDIA"), None),
        (accelerator("pci:0000:02:00.0", vendor="AMD"), None),
        (accelerator("platform:fdab0000.npu", vendor="Rockchip"), None),
    ],
)
def test_nvml_finds_an_accelerator_by_uuid_or_address(acc: Accelerator, index: int | None) -> None:
    assert nvml_index(acc, [gpu(0, "0000:01:00.0", "GPU-a"), gpu(1, "0000:02:00.0"), gpu(2, "")]) == index


EVERY_DRIVER = [
    accelerator("platform:17000000.gpu", vendor="NVIDIA", kind="gpu", driver="gk20a", unified=True),
    accelerator("pci:0000:01:00.0", driver="apex"),
    accelerator("pci:0000:02:00.0", driver="hailo"),
    accelerator("pci:0000:03:00.0", driver="intel_vpu"),
    accelerator("pci:0000:04:00.0", driver="amdgpu"),
    accelerator("platform:fdab0000.npu", driver="RKNPU"),
    accelerator("cpu:0", kind="cpu"),
]


@given(hostile_worlds())
def test_hostile_machines_are_measured_without_an_exception(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, Entry]
) -> None:
    root = str(tmp_path_factory.mktemp("hostile"))
    build(root, files)
    observer = Observer()
    for second in (0.0, 1.0):
        samples = observer.look(Host(root), EVERY_DRIVER, Seconds(second), Seconds(0.0))
        assert all(math.isfinite(item.value) and item.detail.isprintable() for item in samples)


def test_every_accelerator_has_samples_of_its_own(world: World) -> None:
    files: dict[str, Entry] = {}
    for number in range(30):
        files |= pci(
            f"0000:{number:02x}:00.0", "1e60:2864", driver="hailo", link="8.0 GT/s x1 of 8.0 GT/s x4"
        )
    accs = [accelerator(f"pci:0000:{number:02x}:00.0", driver="hailo") for number in range(30)]
    samples = Observer().look(world(files), accs, Seconds(0), Seconds(0))
    assert [item.accelerator for item in samples] == [acc.id for acc in accs]
