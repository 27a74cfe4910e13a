"""The texts and amounts of a refusal."""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from fairlead.placement import Reason, Rejection
from fairlead.request import PodAffinityTerm, Request, repels
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.filter.filters import slowdowns
from fairlead.schedule.filter.selectors import first_mismatch
from fairlead.schedule.state.columns import UNSTATED, Ints, Mask
from fairlead.units import format_bytes, format_number


def node_rejections(compiled: CompiledRequest, reason: Reason, rows: Ints, out: Mask) -> Iterator[Rejection]:
    """Yield the rejection for a reason about nodes: `out` marks what it rules out."""
    bad = out.any(axis=1)
    if not bad.any():
        return
    text, need, most = _node_text(compiled, reason, rows[bad])
    where = "are on nodes that " if compiled.count else ""
    yield Rejection(reason, where + text, int(out.sum()), int(bad.sum()), need, most)


def _node_text(
    compiled: CompiledRequest, reason: Reason, rows: Ints
) -> tuple[str, float | None, float | None]:
    columns, request = compiled.cluster.columns, compiled.request
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
        return _resource_text(compiled, rows)
    if reason is Reason.TAINT:
        return f"have a taint that is not tolerated ({_taint(compiled, rows)})", None, None
    if reason is Reason.DEVICE_SELECTOR:
        return _selector_text(compiled, rows), None, None
    return _TEXTS[reason](request), None, None


def _selector_text(compiled: CompiledRequest, rows: Ints) -> str:
    """Return a text with the selector that fails there, and its error."""
    kinds = list(compiled.cluster.columns.kinds)
    present = np.unique(compiled.cluster.columns.kind[rows])
    failed = next(kinds[at] for at in present.tolist() if at >= 0 and compiled.selector_failed[at])
    text, fault = first_mismatch(compiled.request.demand.selectors, failed.offered)
    return f"have a device on which the selector {text} fails ({fault})"


def _resource_text(compiled: CompiledRequest, rows: Ints) -> tuple[str, float, float]:
    lacking = [
        (key, need, int(compiled.cluster.columns.resource(key, rows).max()))
        for key, need in compiled.request.resources
        if (compiled.cluster.columns.resource(key, rows) < need).any()
    ]
    key, need, most = lacking[0]
    size = format_bytes if key in UNSTATED or key.startswith("hugepages-") else str
    return f"lack {key} (need {size(need)}, most {size(most)} free)", need, most


def _taint(compiled: CompiledRequest, rows: Ints) -> str:
    """Return the taints that reject the most rows."""
    sets, tolerations = list(compiled.cluster.columns.taint_sets), compiled.request.tolerations
    numbers, counts = np.unique(compiled.cluster.columns.taints[rows], return_counts=True)
    rows_by_taints: Counter[str] = Counter()
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        rows_by_taints[", ".join(str(taint) for taint in sets[number] if repels(taint, tolerations))] += count
    return min(rows_by_taints, key=lambda text: (-rows_by_taints[text], text))


def _node_selector(request: Request) -> str:
    return f"are not labelled {request.selector}"


def _node_affinity(request: Request) -> str:
    return f"do not match the node affinity ({' or '.join(str(term) for term in request.affinity)})"


def _ports(request: Request) -> str:
    return f"have a host port taken ({', '.join(f'{port.number}/{port.protocol}' for port in request.ports)})"


def _pod_affinity(request: Request) -> str:
    return f"do not match the pod affinity ({_terms(request.pod_affinity)})"


def _pod_anti_affinity(request: Request) -> str:
    terms = _terms(request.pod_anti_affinity)
    return f"do not match the pod anti-affinity ({terms or 'of pods that run there'})"


def _terms(terms: Iterable[PodAffinityTerm]) -> str:
    """Return the required terms."""
    return "; ".join(f"{term.selector} by {term.topology}" for term in terms if not term.weight)


def _topology_spread(request: Request) -> str:
    rules = [rule for rule in request.topology_spread if rule.must]
    texts = ", ".join(f"{rule.topology}, skew {rule.skew}" for rule in rules)
    return f"do not match the topology spread ({texts})"


_TEXTS = {
    Reason.UNSCHEDULABLE: lambda _: "are cordoned",
    Reason.SELECTOR: _node_selector,
    Reason.AFFINITY: _node_affinity,
    Reason.PODS: lambda _: "take no more pods",
    Reason.PORT: _ports,
    Reason.POD_AFFINITY: _pod_affinity,
    Reason.POD_ANTI_AFFINITY: _pod_anti_affinity,
    Reason.TOPOLOGY_SPREAD: _topology_spread,
}


def device_rejections(
    compiled: CompiledRequest, reason: Reason, rows: Ints, out: Mask, text: str = ""
) -> Iterator[Rejection]:
    """Yield the rejection for a reason about accelerators: `out` marks those that it rules out."""
    if not out.any():
        return
    need, most = _device_amounts(compiled, reason, rows, out)
    if reason is Reason.BUSY:
        text = "are held by others, and the pod takes whole accelerators"
    elif reason is Reason.DEVICE_MEMORY and need is not None and most is not None:
        size = f"need {format_bytes(int(need))}" if need else "need some"
        text = f"lack memory ({size}, most {format_bytes(int(most))} free)"
    elif reason is Reason.MEMORY_BOUND and need is not None and most is not None:
        free = f"need {format_bytes(int(need))}, most {format_bytes(int(most))} free after headroom"
        text = f"would exceed the out-of-memory bound ({free})"
    elif reason is Reason.SLOWDOWN and need is not None and most is not None:
        text = f"would slow a pod down beyond its SLO ({need:.2f} times, at most {most:.2f} tolerated)"
    elif reason is Reason.CORRELATION:
        text = "have measured use that correlates with the pod's"
    elif reason is Reason.DEVICE_COMPUTE and need is not None and most is not None:
        part = f"need {need / 10:g} %" if need else "need some"
        text = f"lack compute ({part}, most {most / 10:g} % free)"
    elif reason is Reason.SLO and most is not None and need is not None:
        text = f"{text} (need {format_number(1000 * need)} ms, best {format_number(1000 * most)} ms expected)"
    yield Rejection(reason, text, int(out.sum()), int(out.any(axis=1).sum()), need, most)


def _device_amounts(
    compiled: CompiledRequest, reason: Reason, rows: Ints, out: Mask
) -> tuple[float | None, float | None]:
    columns = compiled.cluster.columns
    kind = columns.kind[rows][out]
    if reason is Reason.SLOWDOWN:
        return _slowdown_amounts(compiled, rows, out)
    if reason in (Reason.DEVICE_MEMORY, Reason.MEMORY_BOUND):
        free = compiled.free_memory(rows)[out]
        node = np.broadcast_to(columns.memory[rows][:, None], out.shape)[out] - compiled.request.memory
        free = np.where(compiled.node_memory[kind] > 0, np.minimum(free, node // compiled.count), free)
        return int(compiled.memory[kind].min()), int(free.max())
    if reason is Reason.DEVICE_COMPUTE:
        return int(compiled.compute[kind].min()), int(columns.free_compute[rows][out].max())
    if reason is Reason.SLO and compiled.request.slo is not None:
        seconds = compiled.seconds[kind]
        return (
            (compiled.request.slo, float(np.nanmin(seconds))) if not np.isnan(seconds).all() else (None, None)
        )
    return None, None


def _slowdown_amounts(compiled: CompiledRequest, rows: Ints, out: Mask) -> tuple[float | None, float | None]:
    """Return the predicted and the tolerated slowdown of the accelerator with the smallest excess."""
    predicted, tolerated = slowdowns(compiled, rows)
    least = int(np.argmin((predicted / tolerated)[out]))
    return float(predicted[out][least]), float(tolerated[out][least])


def format_cpu(milli: int) -> str:
    """Format CPU for people: `500m`, `4 cores`."""
    if milli % 1000:
        return f"{milli}m"
    return "1 core" if milli == 1000 else f"{milli // 1000} cores"
