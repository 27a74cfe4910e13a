"""Predictions from data sheets alone, beside published runs of networks that the project builds itself.

Each maker's rows are also predicted by figures fitted without that maker: what a maker that
was never measured may expect. `bench/predict.py` prints these figures.
"""

import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.analyze import analyze
from fairlead.catalog import Catalog
from fairlead.estimate import roofline
from fairlead.estimate.feasible import rate
from fairlead.estimate.query import Query
from fairlead.estimate.speeds import DeviceSpeed, rows, speed_in
from fairlead.estimate.target import Target, target
from fairlead.evaluate.score import spearman
from fairlead.evaluate.table import Key, LatencyTable
from fairlead.units import Ops
from fairlead.zoo import KNOWN
from fairlead.zoo.onnxfile import write

Array = NDArray[np.float64]
NPU_ERROR, NPU_BIAS, NVIDIA_ERROR, ORDER = 0.45, 1.25, 0.40, 0.75
NETWORKS = {
    **{
        "mobilenetv1": "mobilenet_v1",
        "mobilenetv110224": "mobilenet_v1",
        "mobilenetv11p0224": "mobilenet_v1",
    },
    **{"mobilenetv2": "mobilenet_v2", "mobilenetv212": "mobilenet_v2", "mobilenetv210224": "mobilenet_v2"},
    **{"resnet18": "resnet18", "resnet50": "resnet50", "resnet50v27": "resnet50", "resnet": "resnet50"},
    **{"resnetv150": "resnet50", "inceptionv3": "inception_v3", "ssdmobilenetv1": "ssd_mobilenet_v1"},
    **{"mobilenetv1ssd": "ssd_mobilenet_v1", "efficientnetb0": "efficientnet_b0", "vittiny": "vit_tiny"},
}
"""Names of tables, without punctuation and size."""
DEVICES: dict[str, tuple[str, str, float]] = {
    "Rockchip RK3566/RK3568": ("Rockchip", "rk3568-npu", 1),
    "Rockchip RK3562": ("Rockchip", "rk3562-npu", 1),
    "Rockchip RK3588 (1 NPU core)": ("Rockchip", "rk3588-npu", 1),
    "Rockchip RK3576 (1 NPU core)": ("Rockchip", "rk3576-npu", 1),
    "Rockchip RV1126": ("VeriSilicon", "rv1126-npu", 1),
    "Rockchip RV1109": ("VeriSilicon", "rv1126-npu", 0.6),
    "Rockchip RK1808": ("VeriSilicon", "rk1808", 1),
    "AXERA AX650N 3 Cores": ("Axera", "axera-ax650n", 1),
    "AXERA AX650N 1 Core": ("Axera", "axera-ax650n", 1 / 3),
    "AXERA AX630C 3.2T": ("Axera", "axera-ax650n", 3.2 / 18),
    "AXERA AX620Q 2.4T": ("Axera", "axera-ax650n", 2.4 / 18),
    "Sophgo BM1684": ("Sophgo", "sophgo-bm1684", 1),
    "Sophgo BM1684X": ("Sophgo", "sophgo-bm1684x", 1),
    "Sophgo BM1688": ("Sophgo", "sophgo-bm1684x", 0.25),
    "Sophgo CV186X": ("Sophgo", "sophgo-bm1684x", 7.2 / 32),
    "Intel Core Ultra 7 processor 155H NPU-only": ("Intel", "intel-npu-meteor-lake", 1),
    "Intel Core Ultra 9 processor 288V NPU-only": ("Intel", "intel-npu-lunar-lake", 1),
    "QUALCOMM Cloud AI 100 PCIe/HHHL Pro": ("Qualcomm", "qualcomm-ai100", 1),
    "QUALCOMM Cloud AI 100 DM.2": ("Qualcomm", "qualcomm-ai100", 0.5),
    "QUALCOMM Cloud AI 100 DM.2e": ("Qualcomm", "qualcomm-ai100", 0.175),
    "FuriosaAI Warboy": ("Furiosa", "furiosa-warboy", 1),
    "RBLN ATOM": ("Rebellions", "rebellions-atom", 1),
    "DaVinci": ("SiMa", "sima-mlsoc", 1),
    **{
        name: ("NVIDIA", device, 1)
        for name, device in {
            **{"NVIDIA A10": "a10", "NVIDIA A100-PCIe-40GB": "a100", "NVIDIA A100-SXM-80GB": "a100"},
            **{"NVIDIA A2": "a2", "NVIDIA A30": "a30", "NVIDIA L4": "l4", "NVIDIA T4": "t4"},
            **{"NVIDIA GeForce RTX 4090 (Ada Lovelace)": "rtx-4090", "NVIDIA Orin": "jetson-agx-orin"},
            **{"NVIDIA H100-PCIe-80GB": "h100", "NVIDIA Orin NX": "jetson-orin-nx"},
            **{"NVIDIA AGX Xavier": "jetson-agx-xavier", "NVIDIA Xavier NX": "jetson-xavier-nx"},
            **{"NVIDIA Jetson AGX Xavier": "jetson-agx-xavier", "NVIDIA Jetson Nano": "jetson-nano"},
            "NVIDIA Jetson TX2": "jetson-tx2",
        }.items()
    },
}
"""Devices of tables: the maker, the device of the catalog, and the share of its peak."""
CORES = {"rk3588-npu": 3, "rk3576-npu": 2}
FITTED = (
    *("conv", "product", "bytes", "weights", "depthwise", "light", "smooth"),
    *("call_us", "kernel_conv_us", "kernel_us"),
)
DOUBT = np.array([0.5, 0.7, 1, 1, 1, 1, 1, 1, 1, 1])
"""Deviation of each figure, in logarithms, from the general row."""


class Cell(NamedTuple):
    """One published run."""

    maker: str
    device: str
    network: str
    precision: str
    target: Target
    seconds: float


def cells(tables: Sequence[LatencyTable], catalog: Catalog) -> list[Cell]:
    """Return the runs at batch 1, one input at a time, of networks that the project builds."""
    times: dict[tuple[str, str, str], list[Cell]] = defaultdict(list)
    for table in tables:
        for row, key in enumerate(table.keys):
            if key.device not in DEVICES or not _counts(key):
                continue
            maker, name, share = DEVICES[key.device]
            whole = target(name, catalog)
            device = replace(whole, rates={each: Ops(ops * share) for each, ops in whole.rates.items()})
            precision = next((one for one in ("fp32", "fp16") if one in key.precision), "int8")
            for column in np.flatnonzero(~np.isnan(table.seconds[row])):
                network = NETWORKS.get(_plain(table.models[column].name))
                if network and rate(precision, device.rates):
                    time = float(np.exp(table.seconds[row, column]))
                    cell = Cell(maker, key.device, network, precision, device, time)
                    times[key.device, network, precision].append(cell)
    return [_median(same) for same in times.values()]


def _median(same: Sequence[Cell]) -> Cell:
    """Return one run for all of a network on a device, by several people and versions of a runtime."""
    return same[0]._replace(seconds=float(np.median([cell.seconds for cell in same])))


def errors(found: Sequence[Cell], speeds: Sequence[DeviceSpeed]) -> Array:
    """Return the logarithms of predicted over published."""
    predicted = []
    for cell, speed in zip(found, speeds, strict=True):
        work = _query(cell.network, cell.precision).amounts(cell.precision)
        operations = rate(cell.precision, cell.target.rates)
        [times] = roofline.coefficients([cell.target], [operations], [speed])
        predicted.append(float(times @ work.time) + roofline.link_seconds(cell.target, work, speed))
    return np.log(predicted) - np.log([cell.seconds for cell in found])


def _one_core(cell: Cell) -> Cell:
    """Return a run as that of one core, where the rows of its maker say that a run uses one of several."""
    cores = CORES.get(cell.target.device, 1)
    rates = {name: Ops(ops / cores) for name, ops in cell.target.rates.items()}
    return cell._replace(target=replace(cell.target, rates=rates))


def without_maker(found: Sequence[Cell]) -> Array:
    """Return the errors of each maker's runs, by figures that are fitted to the other makers' alone."""
    result = np.zeros(len(found))
    for maker in {cell.maker for cell in found}:
        rest = [cell for cell in found if cell.maker != maker]
        places = [place for place, cell in enumerate(found) if cell.maker == maker]
        speed = _fitted(rest)
        result[places] = errors([found[place] for place in places], [speed] * len(places))
    return result


def show(tables: Sequence[LatencyTable], catalog: Catalog) -> bool:
    """Print the bars; return whether they are met."""
    found = cells(tables, catalog)
    shipped = errors(found, [cell.target.speed for cell in found])
    npu = [cell.target.kind == "npu" for cell in found]
    nvidia = [cell.maker == "NVIDIA" for cell in found]
    unseen = without_maker([_one_core(cell) for cell, chosen in zip(found, npu, strict=True) if chosen])
    orders = _orders(found, shipped)
    met = [
        _bar("NPUs, maker left out", unseen, NPU_ERROR, NPU_BIAS),
        _bar("NPUs, as shipped", shipped[npu], NPU_ERROR, NPU_BIAS),
        _bar("NVIDIA, as shipped", shipped[nvidia], NVIDIA_ERROR, NPU_BIAS),
    ]
    for network, (count, order) in orders.items():
        print(f"  order of {count} devices for {network} in int8: Spearman {order:.3f}")
    mean = float(np.mean([order for _, order in orders.values()]))
    print(f"  BAR mean order {mean:.3f} (>= {ORDER}): {'met' if mean >= ORDER else 'MISSED'}")
    return all(met) and mean >= ORDER


def _bar(name: str, found: Array, most: float, most_bias: float) -> bool:
    rms, bias = float(np.sqrt((found**2).mean())), float(np.exp(found.mean()))
    good = rms <= most and 1 / most_bias <= bias <= most_bias
    shown = f"{len(found)} runs: rms {rms:.2f} (<= {most}), {bias:.2f} times on the mean"
    print(f"  BAR {name:22} {shown}: {'met' if good else 'MISSED'}")
    return good


def _orders(found: Sequence[Cell], shipped: Array) -> dict[str, tuple[int, float]]:
    """Return, by network, the devices that ran it in int8 and the correlation of their order."""
    fastest: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for cell, error in zip(found, shipped, strict=True):
        if cell.precision == "int8":
            times = cell.seconds, cell.seconds * float(np.exp(error))
            fastest[cell.network][cell.device] = min(times, fastest[cell.network].get(cell.device, times))
    pairs = {network: np.array([*times.values()]) for network, times in fastest.items() if len(times) >= 5}
    return {
        network: (len(times), spearman(times[:, 1], times[:, 0]) or 0.0) for network, times in pairs.items()
    }


def _counts(key: Key) -> bool:
    """Say whether the runs of a key are latencies at batch 1 of a compiled network."""
    words = key.runtime.lower()
    return key.mode.split()[0] == "single" and not any(
        name in words for name in ("pytorch", "tensorflow", "onnx")
    )


def _plain(model: str) -> str:
    return re.sub(r"[^a-z0-9]", "", model.split("@", maxsplit=1)[0].lower())


@cache
def _query(network: str, precision: str) -> Query:
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model.onnx")
        write(KNOWN[network](1, "fp16"), file)
        return Query.of(analyze(file), precision, 1)


def _fitted(found: Sequence[Cell]) -> DeviceSpeed:
    """Fit the figures of one row by Gauss-Newton steps, each maker with the same weight, robustly."""
    general = speed_in(
        [row for row in rows() if not {"families", "devices", "vendor"} & row.keys()], "npu", "", ""
    )
    start = np.log([getattr(general, name) for name in FITTED])
    makers, devices = Counter(c.maker for c in found), Counter((c.maker, c.device) for c in found)
    weights = np.array([1 / np.sqrt(makers[c.maker] * devices[c.maker, c.device]) for c in found])
    weights /= weights.mean()
    figures = start.copy()
    for _ in range(30):
        now = errors(found, [_with(general, figures)] * len(found))
        slopes = np.column_stack(
            [
                (errors(found, [_with(general, figures + step)] * len(found)) - now) / 1e-4
                for step in 1e-4 * np.eye(len(start))
            ]
        )
        robust = weights * np.minimum(1, 0.5 / np.maximum(np.abs(now), 1e-9))
        curvature = slopes.T @ (robust[:, None] * slopes) + np.diag(0.3 / DOUBT**2)
        gradient = slopes.T @ (robust * now) + 0.3 * (figures - start) / DOUBT**2
        move = np.clip(np.linalg.solve(curvature, gradient), -0.5, 0.5)
        figures = figures - move
        if np.abs(move).max() < 1e-3:
            break
    return _with(general, figures)


def _with(speed: DeviceSpeed, figures: Array) -> DeviceSpeed:
    return replace(speed, **dict(zip(FITTED, np.exp(figures).tolist(), strict=True)))
