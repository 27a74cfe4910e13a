"""What a job counts for before it is measured: as stated, as learned, as predicted, or by default."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairlead.errors import SettingsError
from fairlead.history.learned import LearnedCommand
from fairlead.history.store import JobHistory
from fairlead.job import Assumed, Requested
from fairlead.local.view import MachineView
from fairlead.need import Need, NeedSource, effective_size, headroom
from fairlead.prediction import Estimate
from fairlead.series import Series, Staleness
from fairlead.sizing.footprint import Footprint
from fairlead.sizing.needs import FEWEST_RUNS, need_of
from fairlead.units import Bytes, format_bytes, format_duration, pluralize

DEFAULT_CPU: Final = 1000
"""Thousandths of a core of a command of which nothing is known, until it is measured."""
DEFAULT_MEMORY: Final = Bytes(512 << 20)
"""RAM of a command of which nothing is known, until it is measured."""
LARGEST_PART: Final = 1 / 8
"""The part of the machine's RAM that such a command counts for at most."""
LEAST_CPU: Final = 10
"""Thousandths of a core that every command counts for."""
_MODEL: Final = "model-"
_EXACT: Final = ("argv-", _MODEL)
"""How the keys begin under which one run is enough: the same words, or the same model."""
NO_SERIES: Final = Series()


@dataclass(frozen=True, slots=True)
class _Accelerators:
    """What a job counts for on accelerators, and why."""

    gpus: int
    whole: bool
    need: Need | None
    source: str
    devices: Mapping[str, float]


def assume(
    requested: Requested,
    keys: Sequence[str],
    history: JobHistory,
    machine: MachineView,
    prediction: Mapping[str, Estimate] | None = None,
    name: str = "the command",
) -> Assumed:
    """Return what a job counts for, and why.

    `keys` come from `command_keys`. `prediction` has the estimate of its model by accelerator id; the id of
    no accelerator in the view is the processor's. `name` is for people.
    """
    known = _known(keys, history)
    devices, predicted = _candidates(requested, machine, prediction or {})
    parts = _accelerators(requested, known, machine, predicted, devices, name)
    memory = _memory(requested, known, machine, parts, predicted)
    return Assumed(
        cpu=_cores(requested, known, machine),
        memory=_default_memory(machine) if memory is None else memory,
        gpus=parts.gpus,
        whole=parts.whole,
        need=parts.need,
        seconds=known.seconds if known else None,
        firm_cpu=requested.cpus is not None,
        firm_memory=requested.memory is not None,
        default_memory=memory is None,
        devices=parts.devices,
        source=_with_scope(parts, prediction or {}),
    )


def _with_scope(parts: _Accelerators, prediction: Mapping[str, Estimate]) -> str:
    """Return the source, with what the predicted latency is of where that is less than it seems."""
    scope = next((each.scope for each in prediction.values() if each.scope), "") if parts.devices else ""
    return f"{parts.source}; its latency is of {scope}" if scope else parts.source


def _known(keys: Sequence[str], history: JobHistory) -> LearnedCommand | None:
    """Return what was learned under the most specific key that has seen a run which tells sizes.

    A model counts by its own runs alone: another model in the same program has another size.
    """
    for key in [key for key in keys if key.startswith(_MODEL)] or keys:
        known = history.learned(key)
        if known is not None and (
            known.whole_runs or _has_evidence(known.gpu) or _has_evidence(known.memory)
        ):
            return known
    return None


def _has_evidence(footprint: Footprint | None) -> bool:
    return footprint is not None and bool(footprint.runs or footprint.surprises)


def _candidates(
    requested: Requested, machine: MachineView, prediction: Mapping[str, Estimate]
) -> tuple[dict[str, float], Bytes | None]:
    """Return the seconds of a query by accelerator, and the memory that the model takes of any; or refuse."""
    if not prediction:
        return {}, None
    here = {device.accelerator.id for device in machine.devices}
    good = {key: each for key, each in prediction.items() if each.good}
    if not good and requested.slo is None and any(each.state == "not known" for each in prediction.values()):
        return {}, None  # nothing speaks against it: it counts as a command of which nothing is known
    if not good:
        why = _refusal(prediction)
        raise SettingsError(
            f"--model {requested.model}: no device of this machine can run it as asked: {why}",
            "see fairlead estimate for each device, or state --gpu-mem instead of --model",
        )
    on_accelerators = {key: each for key, each in good.items() if key in here}
    sizes = [each.memory for each in (on_accelerators or good).values() if each.memory is not None]
    seconds = {key: float(each.seconds or 0.0) for key, each in on_accelerators.items()}
    return seconds, max(sizes, default=None)


def _refusal(prediction: Mapping[str, Estimate]) -> str:
    """Return why no device runs a model as asked: the fastest is too slow, or the first cannot run it."""
    slow = {key: each.p90 for key, each in prediction.items() if each.runs and each.fits and each.p90}
    unknown = [key for key, each in prediction.items() if each.state == "not known"]
    if not slow and unknown:
        return f"its latency on {unknown[0]} is {prediction[unknown[0]].reasons[-1]}"
    if not slow:
        return "; ".join(next(iter(prediction.values())).reasons) or "it does not run"
    fastest = min(slow, key=lambda key: slow[key])
    return (
        f"too slow: nine of ten queries take up to {format_duration(slow[fastest])} on {fastest}, the fastest"
    )


def _accelerators(
    requested: Requested,
    known: LearnedCommand | None,
    machine: MachineView,
    predicted: Bytes | None,
    devices: Mapping[str, float],
    name: str,
) -> _Accelerators:
    if requested.gpus == 0:
        return _Accelerators(
            0, False, None, _ram_source(requested, "stated: no accelerator", known, name), {}
        )
    count = requested.gpus or 1
    if requested.gpu_memory is not None:
        return _stated(requested, requested.gpu_memory, known, count, devices, name)
    if requested.gpus is not None:
        return _Accelerators(count, True, None, f"stated: {pluralize(count, 'whole accelerator')}", devices)
    learned = _learned(requested, known, machine, devices, name) if known else None
    if learned is not None:
        return learned
    if predicted is not None:
        return _predicted(requested, predicted, devices, known, name)
    if requested.device or _has_gpu(machine):
        kind = "accelerator" if requested.device else "GPU"
        return _Accelerators(1, True, None, _whole_source(known, kind, name), devices)
    return _Accelerators(0, False, None, _ram_source(requested, _unusable(machine), known, name), {})


def _stated(
    requested: Requested,
    size: Bytes,
    known: LearnedCommand | None,
    count: int,
    devices: Mapping[str, float],
    name: str,
) -> _Accelerators:
    """Return stated sizes; between a request and a limit, what earlier runs have held counts."""
    limit, footprint = requested.gpu_limit, known.gpu if known else None
    refused = footprint.refused if footprint else 0
    warning = (
        f"; learned that a run of {name} failed at {format_bytes(refused)}"
        if refused >= (limit or size)
        else ""
    )
    if limit is None or limit <= size:
        return _Accelerators(count, False, Need.fixed(size), f"stated{warning}", devices)
    need = _need(footprint)
    if need is None or known is None:
        need = Need.fixed(size, firm=False, source=NeedSource.PROFILE)
        return _Accelerators(count, False, need, f"stated{warning}", devices)
    need = _bounded(need, size, limit)
    text = f"stated, and learned from {_runs(known, known.gpu, name)}{warning}"
    return _Accelerators(count, False, need, text, devices)


def _learned(
    requested: Requested,
    known: LearnedCommand,
    machine: MachineView,
    devices: Mapping[str, float],
    name: str,
) -> _Accelerators | None:
    """Return what earlier runs used; None: they do not show it."""
    fewest = 1 if known.key.startswith(_EXACT) else FEWEST_RUNS
    idle = not known.accelerator_runs and known.idle_runs >= fewest
    asked = requested.device or requested.model
    if idle and not asked and not known.runs[-1].done and not known.runs[-1].gpus:
        # A sample can miss a short use: what fails without an accelerator may have needed it.
        text = f"learned that {known.name or name} failed without an accelerator: it gets a whole one"
        return _Accelerators(1, True, None, text, devices)
    if idle and not asked:
        runs = pluralize(known.idle_runs, "run")
        text = f"learned from {runs} of {known.name or name}: it used no accelerator"
        return _Accelerators(0, False, None, text, {})
    need = _need(known.gpu)
    if need is None or not machine.devices:  # a home can be shared with a machine that has accelerators
        return None
    count = next((run.gpus for run in reversed(known.runs) if run.used_accelerator), 1) or 1
    text = f"learned from {_runs(known, known.gpu, name)}"
    largest = max((device.accelerator.memory or 0 for device in machine.devices), default=0)
    if largest:
        need = _bounded(need, Bytes(0), Bytes(largest))
        if effective_size(need, largest) + headroom(largest) > largest:
            return _Accelerators(count, True, None, f"{text}: it fills an accelerator", devices)
    return _Accelerators(count, False, need, text, devices)


def _predicted(
    requested: Requested,
    size: Bytes,
    devices: Mapping[str, float],
    known: LearnedCommand | None,
    name: str,
) -> _Accelerators:
    text = f"predicted for {requested.model}"
    if not devices:  # the processor: RAM that a run has shown counts instead
        learned = known is not None and _has_evidence(known.memory)
        source = _ram_source(requested, "", known, name) if learned else text
        return _Accelerators(0, False, None, source, {})
    need = Need.fixed(size, firm=False, source=NeedSource.PROFILE)
    return _Accelerators(1, False, need, text, devices)


def _need(footprint: Footprint | None) -> Need | None:
    """Return the need that runs have shown; None: none has.

    The least memory that a command ran in is not its need: nothing holds the next run to it.
    """
    if footprint is None:
        return None
    if not footprint.runs:
        if not footprint.refused:
            return None
        return Need.fixed(footprint.full, firm=False, source=NeedSource.HISTORY, note="a run failed at less")
    return need_of(None, replace(footprint, least=None), NO_SERIES, None, 0.0, Staleness.MISSING)


def _bounded(need: Need, least: Bytes, most: Bytes) -> Need:
    """Return a need with every size within bounds."""
    weights: dict[Bytes, float] = {}
    for size, weight in zip(need.sizes, need.weights, strict=True):
        inside = max(least, min(size, most))
        weights[inside] = weights.get(inside, 0.0) + weight
    return replace(need, sizes=tuple(weights), weights=tuple(weights.values()))


def _cores(requested: Requested, known: LearnedCommand | None, machine: MachineView) -> int:
    if requested.cpus is not None:
        return round(1000 * requested.cpus)
    learned = known.cpu if known else None
    return min(machine.cpu, DEFAULT_CPU if learned is None else max(LEAST_CPU, learned))


def _memory(
    requested: Requested,
    known: LearnedCommand | None,
    machine: MachineView,
    parts: _Accelerators,
    predicted: Bytes | None,
) -> Bytes | None:
    """Return the RAM that a job counts for; None: nothing is known of it."""
    if requested.memory is not None:
        return requested.memory
    footprint = known.memory if known else None
    if footprint is not None and footprint.runs:
        need = _need(footprint)
        return min(machine.memory, effective_size(need, machine.memory)) if need else None
    default = _default_memory(machine)
    if footprint is not None and footprint.surprises:  # it was killed: it needs more than it could show
        return Bytes(min(machine.memory, max(default, round(footprint.full * (1 + footprint.margin)))))
    if predicted is not None and not parts.gpus:
        return max(default, predicted)
    return None


def _default_memory(machine: MachineView) -> Bytes:
    return Bytes(min(DEFAULT_MEMORY, int(machine.memory * LARGEST_PART)))


def _unusable(machine: MachineView) -> str:
    """Return why a GPU that is there cannot be used; empty: there is none."""
    gpus = [device for device in machine.devices if device.accelerator.kind == "gpu"]
    if not gpus:
        return ""
    why = gpus[0].fault or gpus[0].accelerator.reason or "it is not ready"
    return f"cores and RAM alone: {gpus[0].accelerator.id} cannot be used ({why})"


def _has_gpu(machine: MachineView) -> bool:
    """Return whether the machine has a GPU that work can reach; other accelerators must be asked for."""
    return any(
        device.accelerator.kind == "gpu" and device.accelerator.state.allocatable
        for device in machine.devices
    )


def _whole_source(known: LearnedCommand | None, kind: str, name: str) -> str:
    """Return why a job gets a whole accelerator: it is new, or the driver has shown none of its memory."""
    if known is not None and any(run.gpus for run in known.runs):
        return f"no memory of {name} was measured: it gets a whole {kind}; --gpu-mem states a size"
    return f"nothing is known of {name}: it gets a whole {kind}; next time it gets what it used"


def _ram_source(requested: Requested, stated: str, known: LearnedCommand | None, name: str) -> str:
    if requested.cpus is not None and requested.memory is not None:
        return stated or "stated"
    if known is not None and _has_evidence(known.memory):
        learned = f"learned from {_runs(known, known.memory, name)}"
        return f"{stated}; {learned}" if stated else learned
    return stated or f"nothing is known of {name}: it counts for a core and some RAM until it is measured"


def _runs(known: LearnedCommand, footprint: Footprint | None, name: str) -> str:
    runs = footprint.runs if footprint else 0
    if not runs:
        return f"a run of {known.name or name} that failed for lack of memory"
    return f"{pluralize(runs, 'run')} of {known.name or name}"
