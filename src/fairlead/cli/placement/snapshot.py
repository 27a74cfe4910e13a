"""`fairlead snapshot`: write a live cluster to a document that `fairlead schedule --cluster` reads."""

import argparse
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import FORMATS, to_json, to_yaml
from fairlead.cli.output.table import Table
from fairlead.cli.output.terminal import Page, show_page
from fairlead.cli.shell import options as shared
from fairlead.units import format_bytes, pluralize

if TYPE_CHECKING:
    from fairlead.catalog import Catalog
    from fairlead.cluster.config.types import ClusterConfig
    from fairlead.manifest.files.snapshot import Snapshot
    from fairlead.placement import NodeState

_HEAD = ("NODE", "CPU", "MEMORY", "ACCELERATORS", "THEIR MEMORY", "PODS")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "snapshot",
        help="write a cluster's nodes, accelerators and pods to a file",
        description="Write a cluster's nodes and accelerators, the pods that hold them, and the requests of "
        "pods to a file. It contains no environment, image, secret or annotation of a pod.",
    )
    shared.add_cluster(command)
    shared.add_catalog(command)
    command.add_argument("--out", metavar="FILE", help="the file to write (default: the standard output)")
    command.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="json",
        help="the format (default: json); table is for people, and fairlead schedule cannot read it",
    )
    shared.add_color(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    snapshot = take_snapshot(options, shared.catalog_of(options))
    if options.output == "table" and options.out is None:
        show_page(table(snapshot), options.color)
        return 0
    text = (
        str(table(snapshot)) if options.output == "table" else serialize(snapshot.to_json(), options.output)
    )
    if options.out is None:
        print(text)
        return 0
    _write(options.out, text)
    print(f"{options.out}: {summary(snapshot)}", file=sys.stderr)
    return 0


def take_snapshot(options: argparse.Namespace, catalog: "Catalog") -> "Snapshot":
    """Take a snapshot of the cluster that the options name; print and skip unreadable objects."""
    import asyncio

    from fairlead.cluster.config import kubeconfig

    config = kubeconfig.load(options.kubeconfig, options.context)
    with progress("listing the cluster"):
        snapshot, unreadable = asyncio.run(_list_cluster(config, catalog))
    for complaint in unreadable:
        print(f"fairlead: skipped: {complaint}", file=sys.stderr)
    return snapshot


def serialize(document: object, output: str) -> str:
    """Return a document as JSON or YAML."""
    return to_yaml(document) if output == "yaml" else to_json(document)


def table(snapshot: "Snapshot") -> Page:
    """Return a snapshot as a page for people."""
    pods = Counter(placement.node for placement in snapshot.placements)
    rows = [_row(node, pods[node.name]) for node in snapshot.nodes]
    return Page.of(Table.of(_HEAD, rows), pluralize(len(snapshot.pending), "pending pod"))


def summary(snapshot: "Snapshot") -> str:
    """Return the counts of a snapshot in one line."""
    return ", ".join(
        (
            pluralize(len(snapshot.nodes), "node"),
            pluralize(sum(len(node.devices) for node in snapshot.nodes), "accelerator"),
            pluralize(len(snapshot.placements), "running pod"),
            pluralize(len(snapshot.pending), "pending pod"),
        )
    )


def _row(node: "NodeState", pods: int) -> tuple[str, ...]:
    models = Counter(device.model or device.vendor or "unknown" for device in node.devices)
    listed = ", ".join(f"{count} x {model}" for model, count in models.items())
    memory = sum(device.memory for device in node.devices)
    return (
        node.name,
        f"{node.cpu / 1000:g}",
        format_bytes(node.memory),
        listed or "-",
        format_bytes(memory),
        str(pods),
    )


async def _list_cluster(config: "ClusterConfig", catalog: "Catalog") -> "tuple[Snapshot, list[str]]":
    from dataclasses import replace
    from datetime import datetime

    from fairlead.cache.listed_cluster import ListedCluster
    from fairlead.cluster.client import Client
    from fairlead.compat.times import UTC
    from fairlead.manifest.listing import list_objects

    async with Client.connect(config) as client:
        listed = await list_objects(client)
    cluster = ListedCluster.of(listed, catalog)
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    snapshot = replace(cluster.snapshot, taken=now, source=config.context or config.server)
    return snapshot, [str(complaint) for complaint in cluster.read_errors]


def _write(path: str, text: str) -> None:
    """Write a file whole, or not at all."""
    from fairlead.errors import SettingsError
    from fairlead.outfile import atomic_write

    try:
        with atomic_write(path, text=True) as stream:
            stream.write(f"{text}\n")
    except OSError as error:
        raise SettingsError(f"--out {path}: {error.strerror}", "name a file that can be written") from None
