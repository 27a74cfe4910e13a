"""Whether what is free on a node could be enough for a request; sooner yes than no, but at once. Pure."""

from fairlead.request import Request
from fairlead.schedule.cluster import DeviceFree, NodeFree


def could_fit(request: Request, free: NodeFree) -> bool:
    """Say whether amounts alone would let a request in."""
    if request.cpu > free.cpu or request.memory > free.memory or free.pods < 1:
        return False
    count = request.demand.count
    return not count or sum(_could_take(request, each) for each in free.devices) >= count


def _could_take(request: Request, free: DeviceFree) -> bool:
    demand = request.demand
    if request.whole:
        return not free.holders
    return free.memory >= (demand.memory or 0) and free.compute >= (demand.compute or 0)
