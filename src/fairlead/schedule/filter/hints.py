"""Queueing hints: whether the free capacity of a node may suffice for a refused request. Pure."""

from fairlead.request import Request
from fairlead.schedule.state.cluster import NodeFree


def resource_fit_hint(request: Request, free: NodeFree) -> bool:
    """Return whether a node may fit a request by amounts alone: False is certain, True needs a decision."""
    # A node may be over-committed; a request for none of that resource still fits.
    needs = ((request.cpu, free.cpu), (request.memory, free.memory), (1, free.pods))
    if any(need > left for need, left in needs if need):
        return False
    demand = request.demand
    if request.sized_by_estimate or not demand.count:
        return True
    memory, compute = demand.memory or 0, demand.compute or 0
    fits = (
        device.memory >= memory and device.compute >= compute and not (request.whole and device.holders)
        for device in free.devices
    )
    return sum(fits) >= demand.count
