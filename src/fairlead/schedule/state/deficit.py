"""What a node lacks for a placement."""

from collections.abc import Sequence

from fairlead.need import headroom
from fairlead.placement import DeviceState, Placement
from fairlead.schedule.state.columns import Columns
from fairlead.share import DeviceShare
from fairlead.units import format_bytes


def deficit_for(columns: Columns, row: int, devices: Sequence[DeviceState], placement: Placement) -> str:
    """Return what the node of a row lacks for a placement; empty: nothing."""
    request = placement.request
    taken: dict[int, tuple[int, int]] = {}
    for share in placement.shares:
        at = column_of(devices, share.device)
        if at is None:
            return f"has no accelerator {share.device!r}"
        if columns.holders[row, at] and (share.whole or not devices[at].shareable):
            return f"has allocated {share.device} to other pods"
        memory, compute = taken.get(at, (0, 0))
        spare = headroom(devices[at].memory) if share.soft and not columns.soft[row, at] else 0
        taken[at] = memory + share.memory + spare, compute + share.compute
    for at, (memory, compute) in taken.items():
        lacks_memory = columns.free_memory[row, at] < memory and columns.measured[row, at] < memory
        if lacks_memory or columns.free_compute[row, at] < compute:
            return f"has only {format_bytes(int(columns.free_memory[row, at]))} left on {devices[at].id}"
    node_memory = sum(share.memory for share in placement.shares if _takes_node_memory(devices, share))
    needs = (("CPU", request.cpu, columns.cpu), ("memory", request.memory + node_memory, columns.memory))
    others = ((key, amount, columns.supply(key)) for key, amount in request.resources)
    for name, need, left in (*needs, ("room for pods", 1, columns.pods), *others):
        if need and left[row] < need:
            return f"has too little {name} left"
    return ""


def column_of(devices: Sequence[DeviceState], name: str) -> int | None:
    """Return the column of an accelerator by its id; None: the node does not have it."""
    return next((at for at, device in enumerate(devices) if device.id == name), None)


def _takes_node_memory(devices: Sequence[DeviceState], share: DeviceShare) -> bool:
    """Return whether a share also takes memory of the node."""
    return not share.whole and any(device.unified for device in devices if device.id == share.device)
