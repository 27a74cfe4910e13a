"""Queueing hints: whether the free capacity of a node may suffice for a refused request. Pure."""

from fairlead.need import effective_size, headroom
from fairlead.request import Request
from fairlead.schedule.state.cluster import DeviceFree, NodeFree


def resource_fit_hint(request: Request, free: NodeFree) -> bool:
    """Return whether a node may fit a request by amounts alone: False is certain, True needs a decision."""
    # A node may be over-committed; a request for none of that resource still fits.
    needs = ((request.cpu, free.cpu), (request.memory, free.memory), (1, free.pods))
    if any(need > left for need, left in needs if need):
        return False
    demand = request.demand
    if (request.sized_by_estimate and request.need is None) or not demand.count:
        return True
    compute = demand.compute or 0
    fits = (
        max(device.memory, device.measured) >= _memory(request, device)
        and device.compute >= compute
        and not (request.whole and device.holders)
        for device in free.devices
    )
    return sum(fits) >= demand.count


def _memory(request: Request, device: DeviceFree) -> int:
    """Return the free memory that a request needs on an accelerator."""
    if request.need is None or request.whole:
        return request.demand.memory or 0
    if not device.total:
        return 0
    spare = 0 if request.need.firm or device.soft else headroom(device.total)
    return effective_size(request.need, device.total) + spare
