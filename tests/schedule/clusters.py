"""Small clusters and requests, and short functions that build them."""

from collections.abc import Mapping
from typing import Any

from fairlead.placement import DeviceState, NodeState
from fairlead.request import Demand, Request
from fairlead.schedule import EngineCluster
from fairlead.units import Bytes

GIB = 1 << 30


def gib(amount: float) -> Bytes:
    return Bytes(round(amount * GIB))


def gpu(at: int = 0, model: str = "t4", memory: float = 16, **more: Any) -> DeviceState:
    return DeviceState(f"gpu-{at}", model, more.pop("vendor", "nvidia"), gib(memory), **more)


def node(name: str, *devices: DeviceState, labels: Mapping[str, str] | None = None, **more: Any) -> NodeState:
    more = {"cpu": 8000, "memory": gib(32)} | more
    return NodeState(name, labels=labels or {}, devices=devices, **more)


def servers(count: int, devices: int = 2, **more: Any) -> list[NodeState]:
    return [node(f"n{at}", *(gpu(column) for column in range(devices)), **more) for at in range(count)]


def share(name: str, size: float, /, **more: Any) -> Request:
    """Return a request for some memory of one accelerator."""
    return Request(name, demand=Demand(1, memory=gib(size)), **more)


def whole(name: str, count: int = 1, **more: Any) -> Request:
    return Request(name, demand=Demand(count), **more)


def equal(one: EngineCluster, other: EngineCluster) -> bool:
    """Return whether two clusters have the same nodes, placements and free capacity."""
    same = {each.name: each for each in one.nodes()} == {each.name: each for each in other.nodes()}
    same &= {placement.request.id: placement for placement in one.placements()} == {
        placement.request.id: placement for placement in other.placements()
    }
    return same and all(
        one.free(each.name) == other.free(each.name) and _others(one, each.name) == _others(other, each.name)
        for each in one.nodes()
    )


def _others(cluster: EngineCluster, name: str) -> dict[str | int, float]:
    """Return the free amounts of other resources, negative ones included, and what the holders tolerate."""
    supplies, row = cluster.columns.resources, cluster.row(name)
    width = int(cluster.columns.width_total[row])
    others = {key: float(column[row]) for key, column in supplies.items() if column[row]}
    return others | dict(enumerate(cluster.columns.tolerance[row, :width].tolist()))
