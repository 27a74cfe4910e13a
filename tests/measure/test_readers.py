"""The readers of each platform: a table of small worlds and their samples."""

from typing import Final

import pytest

from fairlead.inventory import Accelerator
from fairlead.measure import Observer
from fairlead.telemetry import Metric
from fairlead.units import Seconds
from tests.accelerators import accelerator
from tests.worlds import Entry, Files, Link, World, pci, platform

Measured = dict[tuple[Metric, str], float]
MEMINFO: Final[dict[str, Entry]] = {
    "/proc/meminfo": "MemTotal: 8000 kB\nMemFree: 100 kB\nMemAvailable: 6000 kB\n"
}
RAM: Final[Measured] = {
    (Metric.MEMORY_TOTAL, ""): 8000 * 1024,
    (Metric.MEMORY_FREE, ""): 6000 * 1024,
    (Metric.MEMORY_USED, ""): 2000 * 1024,
}


def measure(world: World, files: Files, acc: Accelerator) -> Measured:
    """Measure an accelerator once."""
    samples = Observer().look(world(files), [acc], Seconds(0.0), Seconds(0.0))
    assert {sample.accelerator for sample in samples} <= {acc.id}
    return {(sample.metric, sample.detail): sample.value for sample in samples}


def zone(number: int, kind: str, millidegrees: int) -> dict[str, Entry]:
    """Return a thermal zone as sysfs shows it, behind a link."""
    home = f"/sys/devices/virtual/thermal/thermal_zone{number}"
    return {
        f"/sys/class/thermal/thermal_zone{number}": Link(
            f"../../devices/virtual/thermal/thermal_zone{number}"
        ),
        f"{home}/type": f"{kind}\n",
        f"{home}/temp": f"{millidegrees}\n",
    }


def hwmon_chip(number: int, address: str, rails: dict[int, tuple[str, int, int | None]]) -> dict[str, Entry]:
    """Return an INA3221 as JetPack 5 and later show it: labels, millivolts, milliamperes."""
    home = f"/sys/devices/platform/c240000.i2c/i2c-1/{address}"
    files: dict[str, Entry] = {
        f"/sys/bus/i2c/drivers/ina3221/{address}": Link(
            f"../../../../devices/platform/c240000.i2c/i2c-1/{address}"
        ),
        "/sys/bus/i2c/drivers/ina3221/bind": "",
    }
    for channel, (label, volts, amperes) in rails.items():
        base = f"{home}/hwmon/hwmon{number}"
        files[f"{base}/in{channel}_label"] = f"{label}\n"
        files[f"{base}/in{channel}_input"] = f"{volts}\n"
        if amperes is not None:
            files[f"{base}/curr{channel}_input"] = f"{amperes}\n"
    return files


ORIN: Final = accelerator("platform:17000000.gpu", vendor="NVIDIA", kind="gpu", driver="gk20a", unified=True)
ORIN_FILES: Final[dict[str, Entry]] = {
    **platform(
        "17000000.gpu",
        driver="gk20a",
        load="425\n",
        **{
            "devfreq__17000000.gpu__cur_freq": "306000000\n",
            "devfreq__17000000.gpu__min_freq": "114750000\n",
            "devfreq__17000000.gpu__max_freq": "612000000\n",
        },
    ),
    **hwmon_chip(
        3,
        "1-0040",
        {
            1: ("VDD_GPU_SOC", 19000, 140),
            2: ("NC", 0, 0),
            3: ("VIN_SYS_5V0", 5000, 1000),
            7: ("sum of shunt voltages", 760, 3),
        },
    ),
    **hwmon_chip(4, "1-0041", {1: ("VDD_CPU_CV", 19000, 20), 2: ("VDDQ_VDD2_1V8AO", 5000, None)}),
    **zone(0, "cpu-thermal", 50000),
    **zone(1, "gpu-thermal", 48500),
    **zone(2, "PMIC-Die", 100000),
    **zone(3, "gpu1-thermal", -256000),
    **MEMINFO,
}
ORIN_MEASURED: Final[Measured] = {
    (Metric.BUSY, ""): 0.425,
    (Metric.CLOCK, "core"): 306e6,
    (Metric.CLOCK_MIN, "core"): 114.75e6,
    (Metric.CLOCK_MAX, "core"): 612e6,
    (Metric.RAIL_POWER, "VDD_GPU_SOC"): 2.66,
    (Metric.RAIL_POWER, "VIN_SYS_5V0"): 5.0,
    (Metric.RAIL_POWER, "VDD_CPU_CV"): 0.38,
    (Metric.POWER, ""): 2.66,
    (Metric.TEMPERATURE, "gpu-thermal"): 48.5,
    **RAM,
}

NANO: Final = accelerator("platform:57000000.gpu", vendor="NVIDIA", kind="gpu", driver="gk20a", unified=True)
IIO: Final = "/sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0"
NANO_FILES: Final[dict[str, Entry]] = {
    **platform("57000000.gpu", driver="gk20a"),
    "/sys/devices/gpu.0": Link("platform/57000000.gpu"),
    "/sys/devices/platform/57000000.gpu/load": "1000\n",
    f"{IIO}/rail_name_0": "POM_5V_IN\n",
    f"{IIO}/in_power0_input": "2500\n",
    f"{IIO}/rail_name_1": "POM_5V_GPU\n",
    f"{IIO}/in_power1_input": "500\n",
    f"{IIO}/rail_name_2": "NC\n",
    f"{IIO}/in_power2_input": "9\n",
    **zone(5, "GPU-therm", 31000),
    **zone(4, "PMIC-Die", 50000),
}
NANO_MEASURED: Final[Measured] = {
    (Metric.BUSY, ""): 1.0,
    (Metric.RAIL_POWER, "POM_5V_IN"): 2.5,
    (Metric.RAIL_POWER, "POM_5V_GPU"): 0.5,
    (Metric.POWER, ""): 0.5,
    (Metric.TEMPERATURE, "GPU-therm"): 31.0,
}

THOR: Final = accelerator("pci:0000:01:00.0", vendor="NVIDIA", kind="gpu", driver="nvidia", unified=True)
THOR_FILES: Final[dict[str, Entry]] = {
    **pci("0000:01:00.0", "10de:2b00", driver="nvidia"),
    "/sys/class/devfreq/gpu-gpc-0/cur_freq": "1000000000\n",
    "/sys/class/devfreq/gpu-nvd-0/cur_freq": "5\n",
    **MEMINFO,
}

BY_CLASS: Final[dict[str, Entry]] = {
    "/sys/class/devfreq/15340000.vic": Link("../../devices/platform/15340000.vic/devfreq/15340000.vic"),
    "/sys/class/devfreq/17000000.gv11b": Link("../../devices/17000000.gv11b/devfreq/17000000.gv11b"),
    "/sys/devices/platform/15340000.vic/devfreq/15340000.vic/cur_freq": "7\n",
    "/sys/devices/platform/15340000.vic/devfreq/15340000.vic/device": Link("../.."),
    "/sys/devices/platform/15340000.vic/of_node/name": "vic\0",
    "/sys/devices/platform/15340000.vic/load": "999\n",
    "/sys/devices/17000000.gv11b/devfreq/17000000.gv11b/cur_freq": "114750000\n",
    "/sys/devices/17000000.gv11b/devfreq/17000000.gv11b/device": Link("../.."),
    "/sys/devices/17000000.gv11b/of_node/name": "gv11b\0",
    "/sys/devices/17000000.gv11b/load": "13\n",
}

APEX: Final = accelerator(kind="tpu", driver="apex")
APEX_HOME: Final = "/sys/devices/pci0000:00/0000:01:00.0/apex/apex_3"
APEX_FILES: Final[dict[str, Entry]] = {
    **pci("0000:01:00.0", "1ac1:089a", driver="apex", link="5.0 GT/s x1 of 5.0 GT/s x1"),
    f"{APEX_HOME}/temp": "45050\n",
    f"{APEX_HOME}/trip_point0_temp": "85000\n",
    f"{APEX_HOME}/trip_point2_temp": "95000\n",
    f"{APEX_HOME}/hw_temp_warn1": "100000\n",
}
APEX_MEASURED: Final[Measured] = {
    (Metric.LINK, ""): 5e9,
    (Metric.TEMPERATURE, "chip"): 45.05,
    (Metric.TEMPERATURE_LIMIT, "trip_point0"): 85.0,
    (Metric.TEMPERATURE_LIMIT, "trip_point2"): 95.0,
    (Metric.TEMPERATURE_LIMIT, "hw_temp_warn1"): 100.0,
}

AMD: Final = accelerator(vendor="AMD", kind="gpu", driver="amdgpu")
AMD_FILES: Final[dict[str, Entry]] = pci(
    "0000:01:00.0",
    "1002:744c",
    driver="amdgpu",
    gpu_busy_percent="37\n",
    mem_busy_percent="5\n",
    mem_info_vram_total="1000\n",
    mem_info_vram_used="400\n",
    power__runtime_status="active\n",
    hwmon__hwmon7__name="amdgpu\n",
    hwmon__hwmon7__power1_average="25000000\n",
    hwmon__hwmon7__power1_input="99000000\n",
    hwmon__hwmon7__temp1_input="41000\n",
    hwmon__hwmon7__temp1_label="edge\n",
    hwmon__hwmon7__temp2_input="47000\n",
    hwmon__hwmon7__temp2_label="junction\n",
    hwmon__hwmon7__freq1_input="500000000\n",
    hwmon__hwmon7__freq1_label="sclk\n",
    hwmon__hwmon7__freq2_input="96000000\n",
    hwmon__hwmon7__freq2_label="mclk\n",
)
AMD_MEASURED: Final[Measured] = {
    (Metric.BUSY, ""): 0.37,
    (Metric.MEMORY_BUSY, ""): 0.05,
    (Metric.MEMORY_TOTAL, ""): 1000,
    (Metric.MEMORY_USED, ""): 400,
    (Metric.MEMORY_FREE, ""): 600,
    (Metric.POWER, ""): 25.0,
    (Metric.TEMPERATURE, "edge"): 41.0,
    (Metric.TEMPERATURE, "junction"): 47.0,
    (Metric.CLOCK, "core"): 500e6,
    (Metric.CLOCK, "memory"): 96e6,
}
ARC_FILES: Final[dict[str, Entry]] = pci(
    "0000:01:00.0",
    "8086:56a0",
    driver="xe",
    hwmon__hwmon2__power1_input="30000000\n",
    hwmon__hwmon2__energy1_input="5000000\n",
    hwmon__hwmon2__temp2_input="61000\n",
)
ARC_MEASURED: Final[Measured] = {
    (Metric.POWER, ""): 30.0,
    (Metric.ENERGY, ""): 5.0,
    (Metric.TEMPERATURE, "temp2"): 61.0,
}

RK: Final = accelerator("platform:fdab0000.npu", vendor="Rockchip", driver="RKNPU", unified=True)
RK_FILES: Final[dict[str, Entry]] = {
    **platform(
        "fdab0000.npu",
        driver="RKNPU",
        **{
            "devfreq__fdab0000.npu__cur_freq": "1000000000\n",
            "devfreq__fdab0000.npu__load": "12@1000000000Hz\n",
        },
    ),
    **zone(6, "npu-thermal", 39000),
    **zone(5, "gpu-thermal", 77000),
}
RK_MEASURED: Final[Measured] = {
    (Metric.BUSY, ""): 0.12,
    (Metric.CLOCK, "core"): 1e9,
    (Metric.TEMPERATURE, "npu-thermal"): 39.0,
}

INTEL: Final = accelerator(vendor="Intel", driver="intel_vpu", unified=True)
INTEL_FILES: Final[dict[str, Entry]] = pci(
    "0000:01:00.0",
    "8086:7d1d",
    driver="intel_vpu",
    npu_busy_time_us="1000\n",
    npu_current_frequency_mhz="950\n",
    npu_max_frequency_mhz="1400\n",
    npu_memory_utilization="4096\n",
)
INTEL_MEASURED: Final[Measured] = {
    (Metric.CLOCK, "core"): 950e6,
    (Metric.CLOCK_MAX, "core"): 1400e6,
    (Metric.MEMORY_USED, ""): 4096,
}
LINK: Final[dict[str, Entry]] = pci("0000:01:00.0", "1e60:2864", link="8.0 GT/s x1 of 8.0 GT/s x4")
CORAL_USB: Final = accelerator("usb:1-1", kind="tpu", driver="libusb")


@pytest.mark.parametrize(
    ("acc", "files", "expected"),
    [
        pytest.param(ORIN, ORIN_FILES, ORIN_MEASURED, id="jetson orin, hwmon rails"),
        pytest.param(NANO, NANO_FILES, NANO_MEASURED, id="jetson nano, iio rails, load behind an alias"),
        pytest.param(
            accelerator("platform:gpu", vendor="NVIDIA", kind="gpu", unified=True),
            BY_CLASS,
            {(Metric.BUSY, ""): 0.013, (Metric.CLOCK, "core"): 114.75e6},
            id="jetson xavier, found by the tree's name",
        ),
        pytest.param(THOR, THOR_FILES, {(Metric.CLOCK, "core"): 1e9, **RAM}, id="thor, clock of the gpc"),
        pytest.param(APEX, APEX_FILES, APEX_MEASURED, id="coral pcie"),
        pytest.param(CORAL_USB, {}, {}, id="coral usb: nothing to read"),
        pytest.param(AMD, AMD_FILES, AMD_MEASURED, id="amd gpu"),
        pytest.param(
            AMD,
            {**AMD_FILES, "/sys/devices/pci0000:00/0000:01:00.0/power/runtime_status": "suspended\n"},
            {(Metric.BUSY, ""): 0.0},
            id="amd gpu asleep is left asleep",
        ),
        pytest.param(accelerator(kind="gpu", driver="xe"), ARC_FILES, ARC_MEASURED, id="any hwmon chip"),
        pytest.param(RK, RK_FILES, RK_MEASURED, id="rockchip, devfreq load"),
        pytest.param(
            RK,
            {**RK_FILES, "/sys/kernel/debug/rknpu/load": "NPU load:  Core0: 25%, Core1: 50%, Core2:  0%,\n"},
            {**RK_MEASURED, (Metric.BUSY, ""): 0.25},
            id="rockchip, debugfs comes first",
        ),
        pytest.param(INTEL, INTEL_FILES, INTEL_MEASURED, id="intel npu, first look"),
        pytest.param(accelerator(driver="amdxdna"), {}, {}, id="amd xdna: nothing to read"),
        pytest.param(accelerator(), LINK, {(Metric.LINK, ""): 8e9}, id="pcie link, downgraded"),
        pytest.param(accelerator("cpu:0", kind="cpu", unified=True), MEMINFO, RAM, id="cpu, first look"),
    ],
)
def test_the_samples_of_each_platform(
    world: World, acc: Accelerator, files: Files, expected: Measured
) -> None:
    assert measure(world, files, acc) == pytest.approx(expected)


@pytest.mark.parametrize("acc", [ORIN, NANO, THOR, APEX, AMD, RK, INTEL, CORAL_USB], ids=lambda acc: acc.id)
def test_a_machine_without_the_files_gives_no_sample(world: World, acc: Accelerator) -> None:
    assert measure(world, {"/sys/kernel/version": ""}, acc) == {}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("load", "1001\n"),
        ("load", "-3\n"),
        ("load", "soon\n"),
        ("load", "9" * 60),
    ],
)
def test_implausible_values_are_dropped(world: World, path: str, text: str) -> None:
    home = "/sys/devices/platform/17000000.gpu"
    measured = measure(world, {**ORIN_FILES, f"{home}/{path}": text}, ORIN)
    assert (Metric.BUSY, "") not in measured
    assert (Metric.CLOCK, "core") in measured
