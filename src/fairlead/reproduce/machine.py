"""The machine that an experiment ran on, in words."""

import os
import platform
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from fairlead import __version__
from fairlead.cores import usable_cores
from fairlead.units import Bytes, format_bytes

_PACKAGES: Final = ("onnxruntime", "onnxruntime-gpu", "numpy", "tantivy")


def machine(gpus: Sequence[str] = (), proc: str = "/proc") -> dict[str, Any]:
    """Return the processor, cores, memory, accelerators, system and versions."""
    return {
        "processor": _field(f"{proc}/cpuinfo", r"^model name\s*:\s*(.+)$") or platform.machine(),
        "cores": usable_cores(),
        "memory_bytes": int(_field(f"{proc}/meminfo", r"^MemTotal:\s+([0-9]+) kB") or 0) << 10,
        "gpus": list(gpus),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "fairlead": __version__,
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def machine_words(facts: dict[str, Any]) -> str:
    """Return the machine as one line."""
    parts = [
        f"{facts['processor']}, {facts['cores']} cores, {format_bytes(Bytes(facts['memory_bytes']))}",
        ", ".join(facts["gpus"]) or "no GPU",
        facts["system"],
        f"Python {facts['python']}, fairlead {facts['fairlead']}",
        *(f"{name} {found}" for name, found in facts["packages"].items()),
    ]
    return "; ".join(parts)


def _field(path: str, pattern: str) -> str:
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        match = re.search(pattern, file.read(), re.MULTILINE)
    return match[1].strip() if match else ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
