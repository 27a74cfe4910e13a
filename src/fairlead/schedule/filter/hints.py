"""Queueing hints: whether what is free on a node may be enough for a request that was refused. Pure."""

from fairlead.request import Request
from fairlead.schedule.state.cluster import NodeFree


def resource_fit_hint(request: Request, free: NodeFree) -> bool:
    """Say whether amounts alone let a node take a request: False is certain, True is worth a decision."""
    # A node may be over-committed, and a request for nothing fits there all the same.
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
