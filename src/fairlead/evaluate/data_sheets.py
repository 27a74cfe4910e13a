"""Read a device's description: the processor that it names, and the figures of that one's data sheet."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from fairlead.catalog import Catalog
from fairlead.catalog.device import CatalogDevice as Row
from fairlead.compat import toml
from fairlead.evaluate.cores import Processors, count_of
from fairlead.evaluate.naming import (
    Name,
    is_specific,
    look_up,
    look_up_nearly,
    normalise,
    split_words,
    unit_of,
    words_without_maker,
)

_VECTORS: Final = frozenset(("neon", "ruy", "xnnpack"))
"""Vector units, and libraries of kernels for them."""
_HOST: Final = _VECTORS | {"cpu"}
"""Words that mean that the host's cores compute, whatever else is named."""
_HOST_FIRST: Final = frozenset(("ncnn", "mnn", "tflite", "tengine"))
"""Runtimes that compute on the host unless another processor is named."""
_SHADERS: Final = frozenset(("vulkan", "opencl", "opengl", "metal"))
"""Interfaces to a graphics processor that do not use its matrix units."""
_GRAPHICS: Final = _SHADERS | {"gpu", "igpu"}
_NEURAL: Final = frozenset(
    ("npu", "coral", "edgetpu", "tpu", "dsp", "htp", "qnn", "nnapi", "dla", "timvx", "cann", "rknn", "vip")
)
_ELSEWHERE: Final = _GRAPHICS | _NEURAL | {"cuda", "tensorrt"}
_PRECISIONS: Final = {
    **{"int8": "int8", "uint8": "int8", "w8a8": "int8", "bf16": "bf16", "fp16": "fp16", "float16": "fp16"},
    **{"amp": "fp16", "fp32": "fp32", "float": "fp32"},
}
_PART: Final = re.compile(r"\b([0-9]{1,2}) npu cores?\b")
_GLUED: Final = re.compile(r"(?<=[0-9])m[pc](?=[0-9])")
_CORES: Final = 4
"""The cores of a graphics processor whose description has no number."""


@dataclass(frozen=True, slots=True)
class DataSheet:
    """The figures of a data sheet; empty where the processor is not known."""

    kind: str = ""
    ops: float | None = None


@dataclass(frozen=True, slots=True)
class DataSheets:
    """Data sheets by the words of names: the catalog's accelerators, and the chips that tables name."""

    catalog: Mapping[Name, Row]
    short: Mapping[Name, Row]
    """Short names of catalog devices in tables; any longer name comes first."""
    processors: Processors
    graphics: Mapping[Name, Mapping[str, float]]
    neural: Mapping[Name, Mapping[str, float]]

    @classmethod
    def of(cls, catalog: Catalog) -> "DataSheets":
        """Collect the names of all devices with figures."""
        text = resources.files("fairlead.evaluate").joinpath("chips.toml").read_text(encoding="utf-8")
        chips: dict[str, Any] = toml.loads(text)
        parts: dict[str, dict[Name, Any]] = {
            part: {tuple(name.split()): value for name, value in rows.items()} for part, rows in chips.items()
        }
        rows: dict[Name, Row] = {}
        for row in catalog.devices.values():
            if row.peak and row.kind != "cpu" and not row.generic:
                rows |= {
                    name: row
                    for text in (row.name, row.id, *row.aliases)
                    if is_specific(name := words_without_maker(text))
                }
        short = {name: catalog.devices[row] for name, row in parts["alias"].items() if row in catalog.devices}
        processors = Processors(parts["core"], parts["line"], parts["chip"])
        return cls(rows, short, processors, parts["gpu"], parts["npu"])

    def read(self, device: str, runtime: str, precision: str) -> DataSheet:
        """Return the figures of the processor that computes on a described device under a runtime."""
        words = set(re.split(r"[\s+]", " ".join(split_words(f"{device} {runtime}"))))
        unit = unit_of(device)
        graphics = unit == "gpu" or (not unit and bool(words & _GRAPHICS))
        requested = next((known for word, known in _PRECISIONS.items() if word in precision.lower()), "")
        host = self.processors.ops(device, requested)
        if unit == "cpu" or (not unit and _on_host(words) and (host or _by_runtime(words))):
            return DataSheet("cpu", host)
        sheet = None if graphics else self._neural(device, requested)
        sheet = sheet or self._catalogued(
            device, requested or ("fp32" if words & _SHADERS else ""), "gpu" if graphics else unit
        )
        sheet = sheet or (self._graphics(device, requested, graphics) if unit != "npu" else None)
        return sheet or _without_sheet(unit or (_kind(words) if host else ""), host)

    def _catalogued(self, device: str, precision: str, unit: str) -> DataSheet | None:
        name = words_without_maker(device)
        row = look_up(name, self.catalog) or look_up_nearly(name, self.catalog) or look_up(name, self.short)
        if row is None or (unit == "gpu" and row.kind != "gpu") or (unit == "npu" and row.kind == "gpu"):
            return None
        return DataSheet(row.kind, _peak(row, precision))

    def _neural(self, device: str, precision: str) -> DataSheet | None:
        """Read a neural processor; a description may name only some of its cores."""
        figures = look_up(split_words(device), self.neural)
        if figures is None:
            return None
        part = _PART.search(normalise(device))
        share = min(int(part[1]) / figures.get("cores", 1), 1.0) if part else 1.0
        tops = figures["tops"] if precision in ("", "int8") else figures.get("fp16", figures["tops"] / 2)
        return DataSheet("npu", 1e12 * tops * share)

    def _graphics(self, device: str, precision: str, requested: bool) -> DataSheet | None:
        text = _GLUED.sub(r" \g<0>", normalise(device))
        figures = look_up(split_words(text), self.graphics)
        if figures is None or not (requested or not self.processors.clusters(device)):
            return None
        piece = next(
            (part for part in re.split(r"[+;,()\[\]&]", text) if look_up(split_words(part), self.graphics)),
            text,
        )
        speed = 1e9 * figures.get("gflops", figures.get("each", 0.0) * (count_of(piece) or _CORES))
        return DataSheet("gpu", speed * (2 if precision == "fp16" else 1))


def _on_host(words: set[str]) -> bool:
    if words & {"coral", "edgetpu"} and not words & _VECTORS:
        return False
    return bool(words & _HOST) or bool(words & _HOST_FIRST and not words & _ELSEWHERE)


def _by_runtime(words: set[str]) -> bool:
    """Say whether nothing but the runtime says that the host computes: then nothing else is named."""
    return not words & (_HOST | _ELSEWHERE)


def _without_sheet(kind: str, host: float | None) -> DataSheet:
    """Return what is known without a data sheet of the unit; that of another unit says nothing of it."""
    return DataSheet(kind, host if kind == "cpu" else None)


def _kind(words: set[str]) -> str:
    """Return the kind of processor that computes on a chip of which only the cores are known."""
    return "cpu" if _on_host(words) else "gpu" if words & _GRAPHICS else "npu" if words & _NEURAL else "cpu"


def _peak(row: Row, precision: str) -> float:
    """Return the peak at a precision; where it is not given or not known, the highest of the usual ones."""
    usual = [row.peak[name] for name in ("int8", "fp16", "bf16", "fp32") if name in row.peak]
    return float(row.peak.get(precision) or max(usual or row.peak.values()))
