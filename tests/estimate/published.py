"""Published runs of known networks, and how far predictions from data sheets alone are from them.

Sources: MLPerf Inference (single stream), OpenVINO's, Rockchip's, Axera's and Sophgo's model
zoos, Coral's page and pycoral's reference, torch2trt, NVIDIA's TX2 tables, TFLite's hosted models.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import exp, log
from typing import Any, Final

from fairlead.catalog import Catalog, CatalogDevice
from fairlead.estimate import roofline
from fairlead.estimate.feasible import rate
from fairlead.estimate.query import Query
from fairlead.estimate.speeds import Rows, speed_in
from fairlead.estimate.target import Target, target
from fairlead.evaluate.data_sheets import DataSheets
from fairlead.evaluate.naming import Name
from fairlead.units import Ops
from tests.estimate.networks import network

FACTOR: Final = 1.6
"""No prediction is further from its published run than this."""
NEARLY: Final = 1.1
"""Peaks are published in round numbers."""
TIMES: Final = ("call_us", "kernel_us", "kernel_conv_us")
SHARES: Final = ("conv", "product", "bytes", "depthwise", "light", "smooth", "weights", "link")
CHIP_RATES: Final = ("ops", "gflops", "each", "tops")
"""The figures of `chips.toml` that are rates; the others are clocks, counts and gains."""


@dataclass(frozen=True, slots=True)
class Run:
    """One published run."""

    device: str
    """As `fairlead estimate --on` takes it; or, with a runtime, as a table describes it."""
    network: str
    precision: str
    milliseconds: float
    runtime: str = ""
    factor: float = FACTOR
    """Less where the run is one that a constant is fitted on, and the constant is a part of its time."""


RUNS: Final = (
    *(
        Run("coral-usb@usb3", name, "int8", ms)
        for name, ms in (("mobilenet_v1", 2.17), ("mobilenet_v2", 2.29))
    ),
    Run("coral-usb@usb3", "inception_v4", "int8", 84.3),
    Run("coral-usb@usb2", "inception_v4", "int8", 1055),
    Run("jetson-tx2", "mobilenet_v1", "fp16", 12.0),
    Run("jetson-tx2", "inception_v4", "fp16", 45.0),
    Run("jetson-tx2", "resnet50", "fp16", 14.0),
    Run("jetson-nano", "resnet18", "fp16", 11.4),
    Run("jetson-nano", "resnet50", "fp16", 29.8),
    Run("jetson-agx-xavier", "resnet50", "int8", 2.06),
    Run("jetson-agx-xavier", "resnet50", "fp16", 3.37),
    Run("jetson-xavier-nx", "resnet50", "int8", 2.65),
    Run("jetson-agx-orin", "resnet50", "int8", 0.80),
    Run("jetson-orin-nx", "resnet50", "int8", 1.09),
    Run("t4", "resnet50", "int8", 0.84),
    Run("a100", "resnet50", "int8", 0.45),
    Run("a30", "resnet50", "int8", 0.52),
    Run("a2", "resnet50", "int8", 0.71),
    Run("a10", "resnet50", "int8", 0.43),
    Run("l4", "resnet50", "int8", 0.36),
    Run("rtx-4090", "resnet50", "int8", 0.22, factor=1.3),
    Run("h100", "resnet50", "int8", 0.415),
    Run("axera-ax650n", "mobilenet_v1", "int8", 0.277),
    Run("axera-ax650n", "resnet18", "int8", 0.54),
    Run("axera-ax650n", "resnet50", "int8", 1.335),
    Run("axera-ax650n", "inception_v3", "int8", 1.67),
    Run("rk3588-npu", "mobilenet_v2", "int8", 2.22),
    Run("rk3588-npu", "resnet50", "int8", 9.08),
    Run("rk3576-npu", "resnet50", "int8", 10.1),
    Run("rk3568-npu", "resnet50", "int8", 26.4),
    Run("rk3562-npu", "resnet50", "int8", 18.2),
    Run("rv1126-npu", "resnet50", "int8", 27.6),
    Run("rk1808", "resnet50", "int8", 27.0),
    Run("sophgo-bm1684x", "resnet50", "int8", 1.10),
    Run("sophgo-bm1684x", "resnet50", "fp32", 9.14),
    Run("sophgo-bm1684", "resnet50", "int8", 3.93),
    Run("intel-npu-lunar-lake", "mobilenet_v2", "int8", 0.39),
    Run("intel-npu-lunar-lake", "resnet50", "int8", 0.78),
    Run("intel-npu-meteor-lake", "resnet50", "int8", 1.61),
    Run("furiosa-warboy", "resnet50", "int8", 0.725),
    Run("sima-mlsoc", "resnet50", "int8", 0.85),
    Run("qualcomm-ai100", "resnet50", "int8", 0.404),
    Run("Pixel 3 CPU x4", "mobilenet_v1", "int8", 13.0, runtime="TFLite"),
    Run("Pixel 3 CPU x4", "mobilenet_v2", "int8", 12.0, runtime="TFLite"),
    Run("Pixel 3 CPU x4", "inception_v3", "int8", 148.0, runtime="TFLite"),
    Run("Raspberry Pi 4 (Cortex-A72 MP4)", "resnet50", "int8", 402.9, runtime="ArmNN (Neon)"),
    Run("Firefly-RK3399 [CPU: Arm Cortex-A72 MP2 (big)]", "resnet50", "int8", 412.7, runtime="ArmNN (Neon)"),
    Run("Odroid N2+ [CPU: Amlogic S922X]", "resnet50", "int8", 291.9, runtime="TFLite (ruy)"),
    Run("Arm Mali-G52 MP6 GPU", "resnet50", "int8", 248.9, runtime="ArmNN (OpenCL)"),
    Run("ARM Mali-G610 MP4", "resnet50", "int8", 77.0, runtime="ArmNN (OpenCL)"),
    Run("Pixel 3 GPU", "inception_v3", "fp32", 56.0, runtime="TFLite"),
)


@dataclass(frozen=True, slots=True)
class Peak:
    """A published peak of a device of the catalog, or of one that a table describes."""

    device: str
    precision: str
    tera: float
    runtime: str = ""


PEAKS: Final = (
    *(
        Peak("jetson-nano", "fp16", 0.472),
        Peak("jetson-tx2", "fp16", 1.33),
        Peak("jetson-agx-xavier", "int8", 22),
    ),
    *(Peak("jetson-agx-orin", "int8", 85), Peak("jetson-agx-thor", "fp8", 517), Peak("k80", "fp32", 4.37)),
    *(
        Peak("m40", "fp32", 6.84),
        Peak("p4", "int8", 22),
        Peak("p100", "fp16", 18.7),
        Peak("v100", "fp16", 112),
    ),
    *(
        Peak("t4", "int8", 130),
        Peak("a100", "int8", 624),
        Peak("l4", "int8", 242),
        Peak("h100", "int8", 1979),
    ),
    *(Peak("b200", "fp8", 4500), Peak("mi50", "fp16", 26.5), Peak("mi100", "fp16", 184.6)),
    *(Peak("mi250x", "fp16", 191.5), Peak("mi300x", "fp16", 1307), Peak("rx-7900-xtx", "fp16", 122.8)),
    *(Peak("arc-a770", "int8", 262), Peak("arc-b580", "int8", 233), Peak("max-1550", "fp16", 839)),
    *(Peak("coral-usb", "int8", 4), Peak("hailo-8", "int8", 26), Peak("hailo-10h", "int8", 20)),
    *(Peak("hailo-15h", "int8", 20), Peak("axera-ax650n", "int8", 18), Peak("rk3588-npu", "int8", 6)),
    *(Peak("rv1126-npu", "int8", 2), Peak("rk1808", "int8", 3), Peak("sophgo-bm1684x", "int8", 32)),
    *(Peak("intel-npu-lunar-lake", "int8", 48), Peak("furiosa-warboy", "int8", 64)),
    *(
        Peak("rebellions-atom", "int8", 128),
        Peak("sima-mlsoc", "int8", 50),
        Peak("qualcomm-ai100", "int8", 400),
    ),
    *(Peak("xdna2-strix", "int8", 50), Peak("a311d-npu", "int8", 5), Peak("imx8mp-npu", "int8", 2.3)),
    *(Peak("genio-700-npu", "int8", 4), Peak("qcs6490-npu", "int8", 12), Peak("apple-m1-ane", "fp16", 11)),
    *(Peak("am62a-npu", "int8", 2), Peak("ascend-310", "int8", 22), Peak("cambricon-mlu270", "int8", 128)),
    *(Peak("aws-inferentia2", "bf16", 190), Peak("tpu-v4", "bf16", 275), Peak("gaudi2", "bf16", 432)),
    *(Peak("memryx-mx3", "bf16", 24), Peak("axelera-metis", "int8", 214), Peak("deepx-m1", "int8", 25)),
    *(Peak("Rockchip RK3588", "int8", 6, "RKNPU2"), Peak("Rockchip RV1126", "int8", 2, "RKNPU2")),
    *(Peak("AXERA AX650N", "int8", 18, "Pulsar2"), Peak("STM32N6570-DK NPU", "int8", 0.6, "ST Edge AI")),
    *(Peak("QCS6490 NPU", "int8", 12, "qnn"), Peak("Snapdragon 888 NPU", "int8", 26, "qnn")),
    *(Peak("Khadas VIM3 NPU", "int8", 5, "TIM-VX"), Peak("Atlas 200 NPU", "int8", 22, "CANN")),
    *(Peak("Adreno 640", "fp32", 0.955, "Vulkan"), Peak("PowerVR GE8320", "fp32", 0.057, "Vulkan")),
)


def errors(
    runs: Iterable[Run], catalog: Catalog, speeds: Rows, sheets: DataSheets
) -> Iterator[tuple[Run, float]]:
    """Yield each run with the logarithm of predicted over published."""
    for run in runs:
        device = _described(run, sheets) if run.runtime else target(run.device, catalog)
        yield run, log(1e3 * seconds(run, device, speeds) / run.milliseconds)


def seconds(run: Run, device: Target, speeds: Rows) -> float:
    """Predict a run from the data sheet alone, by these figures of `speeds.toml`."""
    known = speed_in(speeds, device.kind, device.vendor, device.family, device.device)
    work = Query.of(network(run.network), run.precision, 1).amounts(run.precision)
    operations = rate(run.precision, device.rates)
    [times] = roofline.coefficients([device], [operations], [known])
    return float(times @ work.time) + roofline.link_seconds(device, work, known)


def wrong_runs(catalog: Catalog, speeds: Rows, sheets: DataSheets) -> list[str]:
    """Return the runs that are predicted too far off, each with its factor."""
    found = errors(RUNS, catalog, speeds, sheets)
    return [
        f"{run.device} {run.network} x{exp(error):.2f}"
        for run, error in found
        if abs(error) > log(run.factor)
    ]


def wrong_peaks(catalog: Catalog, sheets: DataSheets) -> list[str]:
    """Return the devices whose peak is not the published one."""
    rates = ((peak, _rate(peak, catalog, sheets)) for peak in PEAKS)
    return [
        f"{peak.device} {rate:g}" for peak, rate in rates if abs(log(rate / (1e12 * peak.tera))) > log(NEARLY)
    ]


def with_peaks(catalog: Catalog, family: str, factor: float) -> Catalog:
    """Return a catalog in which one family has other peaks."""

    def peak(row: CatalogDevice) -> CatalogDevice:
        return replace(row, peak={name: Ops(rate * factor) for name, rate in row.peak.items()})

    rows = catalog.devices.items()
    return replace(catalog, devices={name: peak(row) if row.family == family else row for name, row in rows})


def with_times(speeds: Rows, index: int, factor: float) -> Rows:
    """Return figures of which one row takes `factor` times as long."""
    changed = {name: _slower(name, value, factor) for name, value in speeds[index].items()}
    return [changed if place == index else row for place, row in enumerate(speeds)]


def with_chips(sheets: DataSheets, section: str, maker: str, factor: float) -> DataSheets:
    """Return sheets in which the chips of one section, whose names begin with a word, have other peaks."""

    def scaled(rows: Mapping[Name, Mapping[str, float]]) -> dict[Name, dict[str, float]]:
        return {
            name: {
                key: value * factor if key in CHIP_RATES and name[0].startswith(maker) else value
                for key, value in figures.items()
            }
            for name, figures in rows.items()
        }

    if section == "core":
        return replace(sheets, processors=replace(sheets.processors, cores=scaled(sheets.processors.cores)))
    if section == "gpu":
        return replace(sheets, graphics=scaled(sheets.graphics))
    return replace(sheets, neural=scaled(sheets.neural))


def _slower(name: str, value: Any, factor: float) -> Any:
    if name in TIMES:
        return value * factor
    return value / factor if name in SHARES else value


def _rate(peak: Peak, catalog: Catalog, sheets: DataSheets) -> float:
    if peak.runtime:
        return sheets.read(peak.device, peak.runtime, peak.precision).ops or 1.0
    return catalog.devices[peak.device].peak[peak.precision]


def _described(run: Run, sheets: DataSheets) -> Target:
    sheet = sheets.read(run.device, run.runtime, run.precision)
    assert sheet.ops, run.device
    return Target(run.device, "", "", sheet.kind, "", rates={run.precision: Ops(sheet.ops)})
