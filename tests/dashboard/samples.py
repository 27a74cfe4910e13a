"""A cluster of any size as a snapshot: mixed nodes, several tenants, pods that wait with various reasons.

python -m tests.dashboard.samples --nodes 200 > /tmp/cluster.json
fairlead dashboard --snapshot /tmp/cluster.json
"""

import argparse
import json
import sys
from collections.abc import Iterator

from fairlead.manifest.files.snapshot import Snapshot
from fairlead.placement import DeviceState, NodeState, Placement
from fairlead.request import Demand, Gang, LabelTerm, MatchOperator, Request, Selector, Taint
from fairlead.share import DeviceShare
from fairlead.units import Bytes

_GIB = 1 << 30
MODELS = (("t4", 15), ("l4", 22), ("a10", 22), ("a100-sxm4-80gb", 79), ("jetson-orin-nx-16gb", 15))
TENANTS = ("default", "shop", "vision", "research")
PER_NODE = 4


def node(number: int) -> NodeState:
    """Return a node with four accelerators of one model; one of them is unhealthy on each 37th."""
    model, gibibytes = MODELS[number % len(MODELS)]
    devices = tuple(
        DeviceState(
            f"{model.split('-')[0]}-{at}",
            model,
            "NVIDIA",
            Bytes(gibibytes * _GIB),
            healthy=bool(number % 37 or at),
        )
        for at in range(PER_NODE)
    )
    return NodeState(
        f"node-{number:04}",
        32_000,
        Bytes(128 * _GIB),
        labels={"kubernetes.io/arch": "arm64" if "jetson" in model else "amd64", "zone": f"z{number % 3}"},
        taints=(Taint("edge", "yes"),) if number % 11 == 5 else (),
        unschedulable=number % 53 == 7,
        devices=devices,
    )


def running(nodes: tuple[NodeState, ...], pods: int) -> Iterator[Placement]:
    """Yield pods, round by round over the nodes and their accelerators."""
    for number in range(pods):
        host = nodes[number % len(nodes)]
        device = host.devices[(number // len(nodes)) % PER_NODE]
        size = Bytes((2 + number % 3) * _GIB)
        request = Request(
            f"infer-{number:05}",
            TENANTS[number % len(TENANTS)],
            cpu=500,
            memory=Bytes(_GIB),
            demand=Demand(1, size),
        )
        yield Placement(request, host.name, (DeviceShare(device.id, size, 0),))


def waiting() -> Iterator[Request]:
    """Yield pods that wait, each for another reason."""
    yield Request("trainer-0", "research", cpu=4000, demand=Demand(8))
    yield Request("huge", "vision", cpu=1000, demand=Demand(1, Bytes(200 * _GIB)))
    yield Request("on-h100", "shop", cpu=1000, demand=Demand(1, Bytes(4 * _GIB), models=("h100-sxm5-80gb",)))
    zone = Selector((LabelTerm("zone", MatchOperator.IN, ("z9",)),))
    yield Request("elsewhere", "default", cpu=1000, demand=Demand(1, Bytes(2 * _GIB)), selector=zone)
    yield Request("many-cores", "shop", cpu=96_000, memory=Bytes(8 * _GIB))
    for at in range(3):
        gang = Gang("ranks", 3)
        yield Request(f"rank-{at}", "research", cpu=40_000, demand=Demand(4), gang=gang, priority=10)
    yield Request("fits", "vision", cpu=1000, demand=Demand(1, Bytes(2 * _GIB)), priority=5)


def cluster(nodes: int, pods: int) -> Snapshot:
    """Return a cluster with so many nodes and running pods."""
    states = tuple(node(number) for number in range(nodes))
    return Snapshot(
        states,
        tuple(running(states, pods)),
        tuple(waiting()),
        "2026-03-01T12:00:00Z",
        f"sample of {nodes} nodes",
    )


def main() -> None:
    """Print a cluster as a snapshot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--pods", type=int, default=0, help="running pods (default: five for each node)")
    options = parser.parse_args()
    document = cluster(options.nodes, options.pods or 5 * options.nodes).to_json()
    json.dump(document, sys.stdout)


if __name__ == "__main__":
    main()
