"""`fairlead nodes`: the nodes of a cluster and the accelerators that their labels name."""

import argparse
from typing import TYPE_CHECKING, Any

from fairlead.cli.output.listing import sorted_by
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Cell, Column, Fit, Tone
from fairlead.cli.shell import options as shared

if TYPE_CHECKING:
    from fairlead.cluster.config.types import ClusterConfig
    from fairlead.cluster.objects import Node

_HEAD = (
    Column("NODE", Fit.KEEP),
    *map(Column, ("READY", "ACCELERATORS", "USABLE", "VERSION")),
    Column("STATES", wide=True),
    Column("ARCH", wide=True),
    Column("INTERNAL-IP", wide=True),
    Column("RUNTIME", wide=True),
)
_SHOWN = 5
"""Columns without those of `-o wide`."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "nodes",
        help="show a cluster's nodes and their accelerators",
        description="Show the nodes of a Kubernetes cluster and the accelerators that their labels name.",
    )
    shared.add_cluster(command)
    command.add_argument("-l", "--selector", metavar="LABELS", help="only nodes with these labels")
    command.add_argument(
        "-w", "--watch", action="store_true", help="print each node, then each change, until interrupted"
    )
    shared.add_list(command, _HEAD)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    import asyncio

    from fairlead.cluster.config import kubeconfig

    config = kubeconfig.load(options.kubeconfig, options.context)
    asyncio.run(_watch_nodes(config, options) if options.watch else _list_nodes(config, options))
    return 0


async def _list_nodes(config: "ClusterConfig", options: argparse.Namespace) -> None:
    from fairlead.cluster.client import Client
    from fairlead.cluster.kinds import NODES

    with progress("listing nodes"):
        async with Client.connect(config) as client:
            listed = (await client.list(NODES, labels=options.selector)).items
    nodes = sorted_by(listed, options.sort_by, _HEAD, _row, to_json)
    if options.output in ("json", "yaml"):
        show([to_json(node) for node in nodes], options.output)
        return
    rows = [_row(node) for node in nodes]
    headers = not options.no_headers
    show_list(_HEAD, rows, options.output, headers=headers, empty="no nodes", color=options.color)


async def _watch_nodes(config: "ClusterConfig", options: argparse.Namespace) -> None:
    """Print a line, or a document, for each change until interrupted; report an unavailable cluster."""
    from fairlead.cli.output.cluster_contact import LONGEST_PAUSE, report_contact
    from fairlead.cluster.client import Client
    from fairlead.cluster.kinds import NODES
    from fairlead.cluster.watch.informer import Informer
    from fairlead.cluster.watch.reflector import WatchTiming

    timing = WatchTiming(max_backoff=LONGEST_PAUSE)
    async with (
        Client.connect(config) as client,
        Informer(client, NODES, labels=options.selector, timing=timing) as nodes,
        report_contact(client, nodes, NODES.path(None)),
    ):
        await nodes.wait_for_sync()
        async for change in nodes.changes():
            if options.output in ("table", "wide"):
                row = map(str, _row(change.object)[: None if options.output == "wide" else _SHOWN])
                print(f"{change.type:9} " + "  ".join(row), flush=True)
            elif options.output == "name":
                print(change.object.metadata.name, flush=True)
            else:
                show({"type": change.type, "node": to_json(change.object)}, options.output)


def to_json(node: "Node") -> dict[str, Any]:
    """Return a node as a document."""
    from fairlead.annotations import labelled_models, parse_devices
    from fairlead.keys import DEVICES

    devices = parse_devices(node.metadata.annotations.get(DEVICES, "")) or ()
    return {
        "name": node.metadata.name,
        "ready": is_ready(node),
        "schedulable": not node.spec.unschedulable,
        "version": node.status.node_info.kubelet_version,
        "accelerators": [
            {"model": m.model, "kind": m.kind, "count": m.count, "usable": m.usable, "state": m.state}
            for m in labelled_models(node.metadata.labels)
        ],
        "unhealthy": [
            {"id": device.id, "model": device.model, "reason": device.reason}
            for device in devices
            if not device.healthy
        ],
    }


def is_ready(node: "Node") -> bool:
    """Return whether the node's Ready condition is True."""
    return any(item.type == "Ready" and item.status == "True" for item in node.status.conditions)


def _row(node: "Node") -> tuple[str | Cell, ...]:
    document = to_json(node)
    accelerators = document["accelerators"]
    usable, info = sum(item["usable"] for item in accelerators), node.status.node_info
    return (
        document["name"],
        _ready_cell(document),
        ", ".join(f"{item['count']} x {item['model']}" for item in accelerators) or "-",
        _usable_cell(usable, document["unhealthy"]),
        document["version"] or "-",
        ", ".join(dict.fromkeys(item["state"] for item in accelerators if item["state"])) or "-",
        info.architecture or "-",
        next((address.address for address in node.status.addresses if address.type == "InternalIP"), "-"),
        info.container_runtime_version or "-",
    )


def _ready_cell(document: dict[str, Any]) -> Cell:
    if not document["ready"]:
        return Cell("no" if document["schedulable"] else "no, cordoned", tone=Tone.BAD)
    if not document["schedulable"]:
        return Cell("yes, cordoned", tone=Tone.WARN)
    return Cell("yes", tone=Tone.GOOD)


def _usable_cell(count: int, unhealthy: list[dict[str, str]]) -> Cell:
    if not unhealthy:
        return Cell(str(count), count)
    return Cell(f"{count}, {len(unhealthy)} unhealthy", count, Tone.BAD)
