"""A request made ready for one cluster: what it needs of each kind of accelerator there, looked up once."""

from typing import Final

import numpy as np

from fairlead.placement import DeviceShare, DeviceState, Reason, share_of, taken_whole
from fairlead.request import Expectation, Request
from fairlead.schedule.filter.selectors import first_mismatch
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.schedule.state.columns import Floats, Ints, Mask

UNKNOWN: Final = Expectation()
NOT_REQUESTED: Final = -(1 << 62)
"""Who asks for none of something passes even where more of it is promised than there is."""
BEST_EFFORT: Final = 1
"""Who asks for memory alone still wants some compute, and the other way: neither is of use alone."""


class CompiledRequest:
    """A request, with a table over the kinds of accelerator for each thing that depends on the kind."""

    def __init__(self, cluster: EngineCluster, request: Request, *, whole: bool = False) -> None:
        self.cluster = cluster
        self.request = request
        self.whole = request.demand.count > 0 and (whole or request.whole)
        """Whether it is given accelerators for itself alone, because it asks so or the policy does."""
        self.count = request.demand.count
        self.needs: Ints = np.array(
            [request.cpu or NOT_REQUESTED, request.memory or NOT_REQUESTED, 1], np.int64
        )
        """Of CPU, memory and pods of the node."""
        self.objections: list[tuple[Reason, str] | None] = []
        """By kind: why it cannot be, or None."""
        self.allowed: Mask = np.zeros(1, np.bool_)
        self.selector_failed: Mask = np.zeros(1, np.bool_)
        """Kinds on which a device selector fails: as in kube-scheduler, their node is out."""
        self.memory: Ints = np.zeros(1, np.int64)
        self.compute: Ints = np.zeros(1, np.int64)
        self.seconds: Floats = np.full(1, np.nan)
        self.joules: Floats = np.full(1, np.nan)
        self.exclusive: Mask = np.zeros(1, np.bool_)
        """Kinds of which nobody else may hold the one that it takes."""
        self.node_memory: Ints = np.zeros(1, np.int64)
        """What each one that it takes takes of the node's own memory."""
        self.any_exclusive = self.any_node_memory = False
        """Whether there is any kind of which that is so."""
        self.shareable: Floats = np.zeros(1)
        """1.0 where somebody else may use what one leaves."""
        self.memory_known = False
        """Whether any accelerator's memory is known."""
        self.least_memory: Ints = np.zeros(1, np.int64)
        """Memory that must be left: for who asks for compute alone, some, where it is known."""
        self.least_compute: Ints = np.ones(1, np.int64)
        self.choosy = True
        """Whether some kind is ruled out."""
        self.total_memory: Ints = np.zeros(1, np.int64)
        """Memory that an accelerator of the kind has in all."""
        self.update_kinds()

    def update_kinds(self) -> None:
        """Look up the kinds of accelerator that came since; the last entry stands for none at all."""
        kinds = list(self.cluster.columns.kinds)
        if len(kinds) == len(self.objections) and kinds:
            return
        self.objections = [objection(self.request, kind, whole=self.whole) for kind in kinds]
        shares = [self.share(kind) for kind in kinds]
        known = [self.request.estimates.get(kind.model, UNKNOWN) for kind in kinds]
        self.allowed = np.array([*(found is None for found in self.objections), False])
        if self.request.demand.selectors:
            self.selector_failed = np.array(
                [*(bool(selector_fault(self.request, kind)) for kind in kinds), False]
            )
        self.memory = np.array([*(share.memory for share in shares), 0], np.int64)
        self.compute = np.array([*(share.compute for share in shares), 0], np.int64)
        self.seconds = np.array([*(each.seconds for each in known), None], np.float64)
        self.joules = np.array([*(each.joules for each in known), None], np.float64)
        self.exclusive = np.array([*(share.whole for share in shares), False])
        unified = np.array([*(kind.unified for kind in kinds), False])
        self.node_memory = np.where(unified & ~self.exclusive, self.memory, 0)
        self.any_exclusive, self.any_node_memory = bool(self.exclusive.any()), bool(self.node_memory.any())
        self.shareable = np.array([*(float(kind.shareable) for kind in kinds), 0.0])
        self.memory_known = any(kind.memory for kind in kinds)
        some = np.array([*(min(kind.memory, BEST_EFFORT) for kind in kinds), 0], np.int64)
        self.least_memory = np.maximum(self.memory, some)
        self.least_compute = np.maximum(self.compute, BEST_EFFORT)
        self.choosy = not self.allowed[:-1].all()
        self.total_memory = np.array([*(kind.memory for kind in kinds), 0], np.int64)

    def share(self, device: DeviceState) -> DeviceShare:
        """Return what it takes of an accelerator."""
        return share_of(self.request, device, whole=self.whole)


def objection(request: Request, device: DeviceState, *, whole: bool = False) -> tuple[Reason, str] | None:
    """Return why a request can never be on this kind of accelerator, however free it is."""
    for reason, test in KIND_FILTERS.items():
        if text := test(request, device):
            return reason, text
    if not whole and not device.shareable and not request.whole and not taken_whole(request, device):
        return Reason.UNSHARED, "cannot be shared"
    return None


def healthy(_: Request, device: DeviceState) -> str:
    """Refuse accelerators that cannot do work now."""
    return "" if device.healthy else "are not healthy"


def right_model(request: Request, device: DeviceState) -> str:
    """Refuse models that were not asked for, or were ruled out."""
    wanted, excluded = request.demand.models, request.demand.excluded
    if wanted and device.model not in wanted:
        return f"are not {' or '.join(wanted)}"
    return f"are {device.model}, which is excluded" if device.model in excluded else ""


def right_vendor(request: Request, device: DeviceState) -> str:
    """Refuse vendors that were not asked for."""
    wanted = request.demand.vendors
    known = not wanted or device.vendor.casefold() in (name.casefold() for name in wanted)
    return "" if known else f"are not from {' or '.join(wanted)}"


def right_selectors(request: Request, device: DeviceState) -> str:
    """Refuse accelerators that the selectors of the claims do not match, or fail on."""
    if not request.demand.selectors:
        return ""
    unmatched, fault = first_mismatch(request.demand.selectors, device.offered)
    if fault:
        return f"fail the selector {unmatched} ({fault})"
    return f"do not match {unmatched}" if unmatched else ""


def selector_fault(request: Request, device: DeviceState) -> str:
    """Return the error of the selectors on an accelerator; empty: they say yes or no."""
    return first_mismatch(request.demand.selectors, device.offered)[1]


def right_precision(request: Request, device: DeviceState) -> str:
    """Refuse accelerators known not to compute in the precision."""
    precision = request.demand.precision
    known = not precision or not device.precisions or precision in device.precisions
    return "" if known else f"do not run {precision}"


def runs(request: Request, device: DeviceState) -> str:
    """Refuse what an estimate says does not run."""
    reason = request.estimates.get(device.model, UNKNOWN).reason
    return f"do not run it ({reason})" if reason else ""


def fast_enough(request: Request, device: DeviceState) -> str:
    """Refuse what is expected to miss the SLO, or of which nothing is expected."""
    if request.slo is None:
        return ""
    seconds = request.estimates.get(device.model, UNKNOWN).seconds
    if seconds is None:
        return "have no estimate to hold against the SLO"
    return "" if seconds <= request.slo else "are too slow"


def has_memory_figure(request: Request, device: DeviceState) -> str:
    """Refuse to share by memory what has no known memory."""
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
"""What is asked of a kind of accelerator, in the order in which a refusal is told."""
