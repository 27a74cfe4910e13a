"""What `fairlead bench share` runs on this machine: its GPU, runtimes and limiters, from the options."""

import argparse
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fairlead.errors import MissingPartError, SettingsError, UserError
from fairlead.sharebench.arrangements import MPS

if TYPE_CHECKING:
    from fairlead.nvml import Gpu
    from fairlead.sharebench.comparison import SharePlan

_RUNTIMES: Final = ("torch", "onnxruntime")


def plan_of(options: argparse.Namespace) -> "tuple[SharePlan, list[str]]":
    """Return what is compared, and a line for each runtime that is left out."""
    from fairlead.sharebench.comparison import SharePlan
    from fairlead.sharebench.workload import EngineCommand, engines_of, kinds_of

    gpu = _gpu(options)
    if options.engine:
        runtimes: tuple[str, ...] = ("torch",)
        skipped: list[str] = []
        command = EngineCommand(options.queries, options.device, tuple(shlex.split(options.engine)))
    else:
        runtimes, skipped = _runtimes(names_of("--runtimes", options.runtimes, _RUNTIMES), options.device)
        command = EngineCommand(options.queries, options.device)
    engines = engines_of(kinds_of(options.device, runtimes), options.engines, options.seed)
    return SharePlan(engines, command, options.limit, gpu), skipped


def usable_limiters(limiters: tuple[str, ...], skipped: list[str]) -> tuple[str, ...]:
    """Return the limiters that this machine has; raise if that is none."""
    from fairlead.sharebench.mps_service import check_mps

    try:
        if MPS in limiters:
            check_mps()
    except MissingPartError as error:
        limiters = tuple(name for name in limiters if name != MPS)
        if not limiters:
            raise
        skipped.append(f"{error}: no arrangement runs under MPS")
    return limiters


def names_of(option: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the names that an option lists, each once."""
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise SettingsError(
            f"{option} {text}: unknown name {', '.join(unknown)}", f"known: {', '.join(known)}"
        )
    return names


def _gpu(options: argparse.Namespace) -> "Gpu | None":
    from fairlead.sharebench.sampler import find_gpu

    if options.device == "cpu":
        return None
    gpu = find_gpu()
    if gpu is None:
        raise UserError("NVML finds no GPU on this machine", "add --device cpu to share the processor")
    return gpu


def _runtimes(names: Sequence[str], device: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the runtimes that can use the device, and why others are left out."""
    from importlib.util import find_spec

    used, skipped = [], []
    for name in names:
        if find_spec(name) is None:
            skipped.append(f"{name} is not installed: no engine uses it")
        elif name == "onnxruntime" and device not in _providers():
            skipped.append(f"onnxruntime is installed without {device.upper()}: no engine uses it")
        else:
            used.append(name)
    if not used:
        raise MissingPartError(
            f"bench share needs a runtime that can use {device}: {'; '.join(skipped)}",
            "install PyTorch as pytorch.org says",
        )
    return tuple(used), skipped


def _providers() -> frozenset[str]:
    from fairlead.calibrate.ort_runner import available

    return available()
