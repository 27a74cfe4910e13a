"""`fairlead nodes`: the nodes of a cluster and the accelerators that their labels name."""

import argparse
from typing import TYPE_CHECKING, Any

from fairlead.cli import options as shared
from fairlead.cli.output import show, show_list

if TYPE_CHECKING:
    from fairlead.cluster.config import Config
    from fairlead.cluster.objects import Node

_HEAD = ("NODE", "READY", "ACCELERATORS", "USABLE", "VERSION")


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
        "-w", "--watch", action="store_true", help="go on and show what changes, until interrupted"
    )
    shared.add_list(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    import asyncio

    from fairlead.cluster import kubeconfig

    config = kubeconfig.load(options.kubeconfig, options.context)
    asyncio.run(_follow(config, options) if options.watch else _once(config, options))
    return 0


async def _once(config: "Config", options: argparse.Namespace) -> None:
    from fairlead.cluster.client import Client
    from fairlead.cluster.kinds import NODES

    async with Client.connect(config) as client:
        nodes = (await client.list(NODES, labels=options.selector)).items
    if options.output in ("json", "yaml"):
        show([to_json(node) for node in nodes], options.output)
        return
    rows = [_row(node) for node in nodes]
    show_list(_HEAD, rows, options.output, headers=not options.no_headers, empty="no nodes")


async def _follow(config: "Config", options: argparse.Namespace) -> None:
    """Print a line, or a document, for each change until interrupted; say when the cluster is away."""
    from fairlead.cli.contact import LONGEST_PAUSE, reported
    from fairlead.cluster.client import Client
    from fairlead.cluster.informer import Informer
    from fairlead.cluster.kinds import NODES
    from fairlead.cluster.replica import Timing

    timing = Timing(longest_pause=LONGEST_PAUSE)
    async with (
        Client.connect(config) as client,
        Informer(client, NODES, labels=options.selector, timing=timing) as nodes,
        reported(client, nodes, NODES.path(None)),
    ):
        await nodes.ready()
        async for change in nodes.changes():
            if options.output == "table":
                print(f"{change.type:9} " + "  ".join(_row(change.object)), flush=True)
            elif options.output == "name":
                print(change.object.metadata.name, flush=True)
            else:
                show({"type": change.type, "node": to_json(change.object)}, options.output)


def to_json(node: "Node") -> dict[str, Any]:
    """Return a node as a document."""
    from fairlead.publish.labels import models

    return {
        "name": node.metadata.name,
        "ready": is_ready(node),
        "schedulable": not node.spec.unschedulable,
        "version": node.status.node_info.kubelet_version,
        "accelerators": [
            {"model": m.model, "kind": m.kind, "count": m.count, "usable": m.usable, "state": m.state}
            for m in models(node.metadata.labels)
        ],
    }


def is_ready(node: "Node") -> bool:
    """Say whether a node reports that it can run pods."""
    return any(item.type == "Ready" and item.status == "True" for item in node.status.conditions)


def _row(node: "Node") -> tuple[str, ...]:
    document = to_json(node)
    found = document["accelerators"]
    ready = "yes" if document["ready"] else "no"
    return (
        document["name"],
        ready if document["schedulable"] else f"{ready}, cordoned",
        ", ".join(f"{item['count']} x {item['model']}" for item in found) or "-",
        str(sum(item["usable"] for item in found)),
        document["version"] or "-",
    )
