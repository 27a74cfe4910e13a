"""A request compiled for one cluster: what it needs of each kind of accelerator, computed once."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fairlead.need import headroom
from fairlead.placement import DeviceState, Reason, share_of, taken_whole
from fairlead.request import Expectation, Request
from fairlead.schedule.filter.rules import BY_REQUEST, SharingRules
from fairlead.schedule.filter.selectors import first_mismatch
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.schedule.state.columns import Floats, Ints, Mask
from fairlead.schedule.state.tolerance import tolerated_slowdown
from fairlead.share import DeviceShare

UNKNOWN: Final = Expectation()
NOT_REQUESTED: Final = -(1 << 62)
"""A request for none of a resource passes even on a node where that resource is over-committed."""
BEST_EFFORT: Final = 1
"""A request for memory alone still needs some compute, and vice versa: neither is useful alone."""


class CompiledRequest:
    """A request, with a table over the kinds of accelerator for each value that depends on the kind."""

    tolerance: Floats
    """By kind: the largest slowdown that keeps the request's own SLO."""
    headrooms: Ints
    """By kind: what stays free beside soft holders."""
    headroom: Ints
    """The same where the request itself is soft, and 0 elsewhere."""
    any_soft: bool
    """Whether the request is soft on any kind."""

    def __init__(self, cluster: EngineCluster, request: Request, rules: SharingRules = BY_REQUEST) -> None:
        self.cluster = cluster
        self.request = request
        self.rules = rules
        self.whole = request.demand.count > 0 and (rules.whole or request.whole)
        """Whether it takes accelerators exclusively, because the request or the policy says so."""
        self.count = request.demand.count
        self.needs: Ints = np.array(
            [request.cpu or NOT_REQUESTED, request.memory or NOT_REQUESTED, 1], np.int64
        )
        """CPU, memory and pods that it needs of the node."""
        self.objections: list[tuple[Reason, str] | None] = []
        """By kind: why the request cannot run on it, or None."""
        self.allowed: Mask = np.zeros(1, np.bool_)
        self.selector_failed: Mask = np.zeros(1, np.bool_)
        """Kinds on which a device selector fails: as in kube-scheduler, this rules out the whole node."""
        self.memory: Ints = np.zeros(1, np.int64)
        self.compute: Ints = np.zeros(1, np.int64)
        self.seconds: Floats = np.full(1, np.nan)
        self.joules: Floats = np.full(1, np.nan)
        self.exclusive: Mask = np.zeros(1, np.bool_)
        """Kinds that the request takes exclusively: no other pod may hold a share."""
        self.node_memory: Ints = np.zeros(1, np.int64)
        """By kind: what each accelerator taken takes of the node's own memory."""
        self.any_exclusive = self.any_node_memory = False
        """Whether any kind is exclusive; whether any kind takes the node's memory."""
        self.shareable: Floats = np.zeros(1)
        """1.0 for kinds whose remainder another pod may use."""
        self.memory_known = False
        """Whether the memory of any accelerator is known."""
        self.least_memory: Ints = np.zeros(1, np.int64)
        """Free memory that the accelerator must have; at least some, where its memory is known."""
        self.least_compute: Ints = np.ones(1, np.int64)
        self.some_excluded = True
        """Whether some kind is ruled out."""
        self.total_memory: Ints = np.zeros(1, np.int64)
        """Total memory of an accelerator of the kind."""
        self.some_unknown = False
        """Whether the latency on some kind is not known, or is of less than it seems."""
        self.update_kinds()

    def update_kinds(self) -> None:
        """Extend the tables to the kinds that the cluster has now; the last entry means no accelerator."""
        kinds = list(self.cluster.columns.kinds)
        if len(kinds) == len(self.objections) and kinds:
            return
        self.objections = [objection(self.request, kind, whole=self.whole) for kind in kinds]
        shares = [self.share(kind) for kind in kinds]
        estimates = [self.request.estimates.get(kind.model, UNKNOWN) for kind in kinds]
        self.allowed = np.array([*(rejected is None for rejected in self.objections), False])
        if self.request.demand.selectors:
            self.selector_failed = np.array(
                [*(bool(selector_fault(self.request, kind)) for kind in kinds), False]
            )
        self.memory = np.array([*(share.memory for share in shares), 0], np.int64)
        self.compute = np.array([*(share.compute for share in shares), 0], np.int64)
        self.seconds = np.array([*(estimate.seconds for estimate in estimates), None], np.float64)
        self.some_unknown = any(estimate.unknown or estimate.scope for estimate in estimates)
        self.joules = np.array([*(estimate.joules for estimate in estimates), None], np.float64)
        self.exclusive = np.array([*(share.whole for share in shares), False])
        unified = np.array([*(kind.unified for kind in kinds), False])
        self.node_memory = np.where(unified & ~self.exclusive, self.memory, 0)
        self.any_exclusive, self.any_node_memory = bool(self.exclusive.any()), bool(self.node_memory.any())
        self.shareable = np.array([*(float(kind.shareable) for kind in kinds), 0.0])
        self.memory_known = any(kind.memory for kind in kinds)
        floor = np.array([*(min(kind.memory, BEST_EFFORT) for kind in kinds), 0], np.int64)
        self.least_memory = np.maximum(self.memory, floor)
        self.least_compute = np.maximum(self.compute, BEST_EFFORT)
        self.some_excluded = not self.allowed[:-1].all()
        self.total_memory = np.array([*(kind.memory for kind in kinds), 0], np.int64)
        self._update_sharing(kinds, shares)

    def _update_sharing(self, kinds: Sequence[DeviceState], shares: Sequence[DeviceShare]) -> None:
        tolerated = (tolerated_slowdown((self.request,), kind.model) for kind in kinds)
        self.tolerance = np.array([*tolerated, np.inf])
        soft = np.array([*(share.soft for share in shares), False])
        self.any_soft = bool(soft.any())
        self.headrooms = np.array([*(headroom(kind.memory) for kind in kinds), 0], np.int64)
        self.headroom = self.headrooms * soft

    def free_memory(self, rows: Ints) -> Ints:
        """Return the free memory of each accelerator of rows, as this request may take it."""
        columns = self.cluster.columns
        free: Ints = columns.free_memory.take(rows, axis=0)
        if self.rules.measured:
            free = np.maximum(free, columns.measured.take(rows, axis=0))
        if self.any_soft:
            free -= self._first_headroom(columns.kind.take(rows, axis=0), columns.soft.take(rows, axis=0))
        return free

    def free_memory_at(self, cells: Ints, kind: NDArray[np.int32]) -> Ints:
        """Return the same of single accelerators, by their places in flat columns."""
        columns = self.cluster.columns
        free: Ints = columns.free_memory.reshape(-1).take(cells)
        if self.rules.measured:
            free = np.maximum(free, columns.measured.reshape(-1).take(cells))
        if self.any_soft:
            free -= self._first_headroom(kind, columns.soft.reshape(-1).take(cells))
        return free

    def _first_headroom(self, kind: NDArray[np.int32], soft: NDArray[np.int32]) -> Ints:
        """Return what the first soft holder must leave free; beside others it is not free already."""
        spare: Ints = self.headroom[kind] * (soft == 0)
        return spare

    def share(self, device: DeviceState) -> DeviceShare:
        """Return what the request takes of an accelerator."""
        return share_of(self.request, device, whole=self.whole)


def objection(request: Request, device: DeviceState, *, whole: bool = False) -> tuple[Reason, str] | None:
    """Return why a request can never run on this kind of accelerator, however free it is."""
    for reason, test in KIND_FILTERS.items():
        if text := test(request, device):
            return reason, text
    if not whole and not device.shareable and not request.whole and not taken_whole(request, device):
        return Reason.UNSHARED, "cannot be shared"
    return None


def healthy(_: Request, device: DeviceState) -> str:
    """Refuse unhealthy accelerators."""
    return "" if device.healthy else "are not healthy"


def right_model(request: Request, device: DeviceState) -> str:
    """Refuse models that the request does not list, or excludes."""
    wanted, excluded = request.demand.models, request.demand.excluded
    if wanted and device.model not in wanted:
        return f"are not {' or '.join(wanted)}"
    return f"are {device.model}, which is excluded" if device.model in excluded else ""


def right_vendor(request: Request, device: DeviceState) -> str:
    """Refuse vendors that the request does not list."""
    wanted = request.demand.vendors
    allowed = not wanted or device.vendor.casefold() in (name.casefold() for name in wanted)
    return "" if allowed else f"are not from {' or '.join(wanted)}"


def right_selectors(request: Request, device: DeviceState) -> str:
    """Refuse accelerators that the claims' selectors do not match, or on which a selector fails."""
    if not request.demand.selectors:
        return ""
    unmatched, fault = first_mismatch(request.demand.selectors, device.offered)
    if fault:
        return f"fail the selector {unmatched} ({fault})"
    return f"do not match {unmatched}" if unmatched else ""


def selector_fault(request: Request, device: DeviceState) -> str:
    """Return the evaluation error of the selectors on an accelerator; empty: they evaluate."""
    return first_mismatch(request.demand.selectors, device.offered)[1]


def right_precision(request: Request, device: DeviceState) -> str:
    """Refuse accelerators with peaks in other precisions alone: the request demands one that is certain."""
    precision = request.demand.precision
    allowed = not precision or not device.precisions or precision in device.precisions
    return "" if allowed else f"are not known to compute in {precision}"


def runs(request: Request, device: DeviceState) -> str:
    """Refuse accelerators on which the request does not run, by its estimate."""
    reason = request.estimates.get(device.model, UNKNOWN).reason
    return f"do not run it ({reason})" if reason else ""


def fast_enough(request: Request, device: DeviceState) -> str:
    """Refuse accelerators that are expected to miss the SLO, or have no estimate."""
    if request.slo is None:
        return ""
    expected = request.estimates.get(device.model, UNKNOWN)
    if expected.seconds is None:
        why = f" ({expected.unknown})" if expected.unknown else ""
        return f"have no estimate to hold against the SLO{why}"
    return "" if expected.seconds <= request.slo else "are too slow"


def has_memory_figure(request: Request, device: DeviceState) -> str:
    """Refuse to share an accelerator by memory if its memory is unknown."""
    by_estimate = request.sized_by_estimate and not taken_whole(request, device)
    sized = request.demand.memory is not None or by_estimate
    return "have no known memory to share" if sized and not device.memory else ""


KIND_FILTERS: Final = {
    Reason.HEALTH: healthy,
    Reason.MODEL: right_model,
    Reason.VENDOR: right_vendor,
    Reason.DEVICE_SELECTOR: right_selectors,
    Reason.PRECISION: right_precision,
    Reason.ESTIMATE: runs,
    Reason.SLO: fast_enough,
    Reason.UNSHARED: has_memory_figure,
}
"""The filters on kinds of accelerator, in the order in which a refusal lists them."""
