"""Small synthetic tables: devices differ in start, compute and memory; models are of three families."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from fairlead.catalog import load
from fairlead.evaluate.data_sheets import DataSheets
from fairlead.evaluate.rows import read
from fairlead.evaluate.table import LatencyTable, tables

SHEETS = DataSheets.of(load())
HEADER = (
    *("source", "device", "precision", "batch", "model", "input_size", "gmacs", "mparams", "latency_ms"),
    *("throughput_fps", "mactivations", "power_w", "peak_mem_mb", "runtime", "licence", "note"),
)
Line = dict[str, object]
FAMILIES = ("resnet", "mobilenet", "vit")


def models(count: int, seed: int = 0) -> list[Line]:
    """Return models with their amounts of work."""
    random = np.random.default_rng(seed)
    rows: list[Line] = []
    for index in range(count):
        gmacs, mparams, mactivations = (
            random.lognormal(0, 1),
            random.lognormal(2, 0.8),
            random.lognormal(1, 0.8),
        )
        rows.append(
            {
                "model": f"{FAMILIES[index % 3]}{index}",
                "input_size": "224",
                "gmacs": gmacs,
                "mparams": mparams,
                "mactivations": mactivations,
            }
        )
    return rows


def latency_ms(model: Mapping[str, object], speed: Iterable[float]) -> float:
    """Return the latency of a model: a constant, its compute, its memory, and a quirk of its family."""
    start, compute, memory = speed
    amounts = [float(str(model[name])) for name in ("gmacs", "mparams", "mactivations")]
    quirk = 1 + 0.3 * (str(model["model"]).startswith("vit")) * compute / (compute + memory)
    return float(start + quirk * (amounts[0] * compute + (0.05 * amounts[1] + amounts[2]) * memory))


def lines(
    devices: int = 8, count: int = 30, seed: int = 0, watts: bool = False, **more: object
) -> list[Line]:
    """Return the rows of a table."""
    random = np.random.default_rng(seed)
    rows: list[Line] = []
    for device in range(devices):
        speed = random.lognormal(0, 0.7, 3) * (0.3, 2.0, 1.0)
        power = random.uniform(2, 40)
        for model in models(count):
            noise = random.lognormal(0, 0.02)
            line = {
                "source": "bench",
                "device": f"Board {device} (Cortex-A{50 + device} {1 + device / 10:.1f}GHz x 4)",
                "runtime": "engine",
                "precision": "fp32",
                "batch": 1,
                "latency_ms": latency_ms(model, speed) * noise,
                **model,
                **more,
            }
            if watts:
                line["power_w"] = power * random.lognormal(0, 0.03)
            rows.append(line)
    return rows


def text(rows: Iterable[Mapping[str, object]], header: Sequence[str] = HEADER) -> str:
    """Return rows as CSV."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(header), extrasaction="ignore", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def write(folder: Path, rows: Iterable[Mapping[str, object]]) -> str:
    """Write a table and return its path."""
    path = folder / "table.csv"
    path.write_text(text(rows), encoding="utf-8")
    return str(path)


def tables_of(rows: Iterable[Mapping[str, object]]) -> list[LatencyTable]:
    """Return rows as tables, one for each source."""
    header, measurements = list(HEADER), list(csv.DictReader(io.StringIO(text(rows))))
    return tables(read(header, measurements, "made up").rows, SHEETS)


CELLS = ("nor_conv_3x3", "nor_conv_1x1", "avg_pool_3x3", "skip_connect", "none")


def cells(count: int = 60, devices: Sequence[str] = ("a_1", "a_32", "b", "c", "d"), seed: int = 0) -> str:
    """Return a wide table of cells x devices."""
    random = np.random.default_rng(seed)
    costs = {name: random.lognormal(0, 0.3, 4) * (6, 2, 1, 0.3) for name in devices}
    out = ["arch," + ",".join(devices)]
    for _ in range(count):
        edges = [CELLS[place] for place in random.integers(0, 5, 6)]
        cell = "|{}~0|+|{}~0|{}~1|+|{}~0|{}~1|{}~2|".format(*edges)
        counts = np.array([edges.count(name) for name in CELLS[:4]])
        latencies = [4 + float(counts @ costs[name]) * random.lognormal(0, 0.01) for name in devices]
        out.append(cell + "," + ",".join(f"{value:.4f}" for value in latencies))
    return "\n".join(out) + "\n"


def records(content: str) -> tuple[list[str], list[dict[str, str]]]:
    """Return the header and the records of a table."""
    reader = csv.DictReader(io.StringIO(content))
    return list(reader.fieldnames or ()), list(reader)
