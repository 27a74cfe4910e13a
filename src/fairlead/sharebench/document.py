"""The document of a comparison: machine, settings, and arrangements with their ratios."""

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from fairlead.nvml import Gpu
from fairlead.sharebench.arrangements import EXCLUSIVE, FIXED, LIMITERS, MODES

_MIB: Final = 1 << 20


def machine_of(gpu: Gpu | None) -> dict[str, Any]:
    """Return what the comparison ran on."""
    return {
        "gpu": gpu.name if gpu is not None else None,
        "memory_mib": gpu.memory // _MIB if gpu is not None and gpu.memory is not None else None,
        "driver": gpu.driver_version if gpu is not None else None,
        "cores": len(os.sched_getaffinity(0)),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "runtimes": {name: found for name in ("torch", "onnxruntime") if (found := _version(name))},
    }


def kept_rounds(earlier: Mapping[str, Any], document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the measured rounds of an earlier document, if it has the same settings and machine."""
    same = all(earlier.get(key) == document[key] for key in ("machine", "settings"))
    return list(earlier.get("rounds", ())) if same else []


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def with_ratios(arrangements: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return arrangements in order, with how much better each is than exclusive and the best fixed number."""
    arrangements = sorted(
        arrangements, key=lambda each: (LIMITERS.index(each["limiter"]), MODES.index(each["mode"]))
    )
    alone = next((each for each in arrangements if each["mode"] == EXCLUSIVE), None)
    return [
        {
            **each,
            "against_exclusive": _against(each, alone),
            "against_best_fixed": _ratio(_best_fixed(arrangements, each["limiter"]), each, "makespan_s"),
        }
        for each in arrangements
    ]


def _best_fixed(arrangements: Sequence[dict[str, Any]], limiter: str) -> dict[str, Any] | None:
    """Return the fixed number at once that ended first under a limiter without a failure."""
    fixed = [
        each
        for each in arrangements
        if each["mode"] in FIXED and each["limiter"] == limiter and not each["failures"]
    ]
    return min(fixed, key=lambda each: float(each["makespan_s"]), default=None)


def _against(each: dict[str, Any], alone: dict[str, Any] | None) -> dict[str, float | None]:
    keys = {"makespan": "makespan_s", "pending": "pending_mean_s", "energy": "energy_j"}
    return {name: _ratio(alone, each, key) for name, key in keys.items()}


def _ratio(alone: dict[str, Any] | None, each: dict[str, Any], key: str) -> float | None:
    base, own = (alone or {}).get(key), each.get(key)
    return round(base / own, 2) if base and own else None
