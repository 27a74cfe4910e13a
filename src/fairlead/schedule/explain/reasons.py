"""The words and amounts of a refusal."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from fairlead.placement import Reason, Rejection
from fairlead.request import Request, repels
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.filter.selectors import first_mismatch
from fairlead.schedule.state.columns import UNSTATED, Ints, Mask
from fairlead.units import format_bytes, format_number


def node_rejections(ask: CompiledRequest, reason: Reason, rows: Ints, out: Mask) -> Iterator[Rejection]:
    """Say what is wrong with nodes: `out` marks what they rule out."""
    bad = out.any(axis=1)
    if not bad.any():
        return
    text, need, most = _node_words(ask, reason, rows[bad])
    where = "are on nodes that " if ask.count else ""
    yield Rejection(reason, where + text, int(out.sum()), int(bad.sum()), need, most)


def _node_words(ask: CompiledRequest, reason: Reason, rows: Ints) -> tuple[str, float | None, float | None]:
    columns, request = ask.cluster.columns, ask.request
    if reason is Reason.CPU:
        most = int(columns.cpu[rows].max())
        return f"lack CPU (need {format_cpu(request.cpu)}, most {format_cpu(most)} free)", request.cpu, most
    if reason is Reason.MEMORY:
        most = int(columns.memory[rows].max())
        return (
            f"lack memory (need {format_bytes(request.memory)}, most {format_bytes(most)} free)",
            request.memory,
            most,
        )
    if reason is Reason.RESOURCE:
        return _resource_words(ask, rows)
    if reason is Reason.TAINT:
        return f"have a taint that is not tolerated ({_taint(ask, rows)})", None, None
    if reason is Reason.DEVICE_SELECTOR:
        return _selector_words(ask, rows), None, None
    return _WORDS[reason](request), None, None


def _selector_words(ask: CompiledRequest, rows: Ints) -> str:
    """Name the selector that fails there, and its error."""
    kinds = list(ask.cluster.columns.kinds)
    there = np.unique(ask.cluster.columns.kind[rows])
    failed = next(kinds[at] for at in there.tolist() if at >= 0 and ask.selector_failed[at])
    text, fault = first_mismatch(ask.request.demand.selectors, failed.offered)
    return f"have a device on which the selector {text} fails ({fault})"


def _resource_words(ask: CompiledRequest, rows: Ints) -> tuple[str, float, float]:
    lacking = [
        (key, need, int(ask.cluster.columns.resource(key, rows).max()))
        for key, need in ask.request.resources
        if (ask.cluster.columns.resource(key, rows) < need).any()
    ]
    key, need, most = lacking[0]
    size = format_bytes if key in UNSTATED or key.startswith("hugepages-") else str
    return f"lack {key} (need {size(need)}, most {size(most)} free)", need, most


def _taint(ask: CompiledRequest, rows: Ints) -> str:
    """Return the taints that keep most of the rows away."""
    sets, borne = list(ask.cluster.columns.taint_sets), ask.request.tolerations
    numbers, counts = np.unique(ask.cluster.columns.taints[rows], return_counts=True)
    told: Counter[str] = Counter()
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        told[", ".join(str(taint) for taint in sets[number] if repels(taint, borne))] += count
    return min(told, key=lambda text: (-told[text], text))


def _labels(request: Request) -> str:
    return f"are not labelled {request.selector}"


def _affinity(request: Request) -> str:
    return f"do not match the node affinity ({' or '.join(str(term) for term in request.affinity)})"


def _ports(request: Request) -> str:
    return f"have a host port taken ({', '.join(f'{port.number}/{port.protocol}' for port in request.ports)})"


def _near(request: Request) -> str:
    return f"are not near pods of {_groups(request, pod_affinity=True)}"


def _apart(request: Request) -> str:
    return f"are near pods that keep apart ({_groups(request, pod_affinity=False) or 'by their own rule'})"


def _groups(request: Request, *, near: bool) -> str:
    rules = request.pod_affinity if near else request.pod_anti_affinity
    return "; ".join(f"{rule.selector} by {rule.topology}" for rule in rules if not rule.weight)


def _spread(request: Request) -> str:
    rules = [rule for rule in request.topology_spread if rule.must]
    return f"would spread unevenly ({', '.join(f'{rule.topology}, skew {rule.skew}' for rule in rules)})"


_WORDS = {
    Reason.UNSCHEDULABLE: lambda _: "are cordoned",
    Reason.SELECTOR: _labels,
    Reason.AFFINITY: _affinity,
    Reason.PODS: lambda _: "take no more pods",
    Reason.PORT: _ports,
    Reason.POD_AFFINITY: _near,
    Reason.POD_ANTI_AFFINITY: _apart,
    Reason.TOPOLOGY_SPREAD: _spread,
}


def device_rejections(
    ask: CompiledRequest, reason: Reason, rows: Ints, out: Mask, text: str = ""
) -> Iterator[Rejection]:
    """Say what is wrong with accelerators: `out` marks those that are ruled out."""
    if not out.any():
        return
    need, most = _device_amounts(ask, reason, rows, out)
    if reason is Reason.BUSY:
        text = "are held by others, and the pod takes whole accelerators"
    elif reason is Reason.DEVICE_MEMORY and need is not None and most is not None:
        size = f"need {format_bytes(int(need))}" if need else "need some"
        text = f"lack memory ({size}, most {format_bytes(int(most))} free)"
    elif reason is Reason.DEVICE_COMPUTE and need is not None and most is not None:
        part = f"need {need / 10:g} %" if need else "need some"
        text = f"lack compute ({part}, most {most / 10:g} % free)"
    elif reason is Reason.SLO and most is not None and need is not None:
        text = f"{text} (need {format_number(1000 * need)} ms, best {format_number(1000 * most)} ms expected)"
    yield Rejection(reason, text, int(out.sum()), int(out.any(axis=1).sum()), need, most)


def _device_amounts(
    ask: CompiledRequest, reason: Reason, rows: Ints, out: Mask
) -> tuple[float | None, float | None]:
    columns = ask.cluster.columns
    kind = columns.kind[rows][out]
    if reason is Reason.DEVICE_MEMORY:
        free = columns.free_memory[rows][out]
        node = np.broadcast_to(columns.memory[rows][:, None], out.shape)[out] - ask.request.memory
        free = np.where(ask.node_memory[kind] > 0, np.minimum(free, node // ask.count), free)
        return int(ask.memory[kind].min()), int(free.max())
    if reason is Reason.DEVICE_COMPUTE:
        return int(ask.compute[kind].min()), int(columns.free_compute[rows][out].max())
    if reason is Reason.SLO and ask.request.slo is not None:
        seconds = ask.seconds[kind]
        return (ask.request.slo, float(np.nanmin(seconds))) if not np.isnan(seconds).all() else (None, None)
    return None, None


def format_cpu(milli: int) -> str:
    """Print CPU as people say it: `500m`, `4 cores`."""
    if milli % 1000:
        return f"{milli}m"
    return "1 core" if milli == 1000 else f"{milli // 1000} cores"
