"""`fairlead retract`: remove from a cluster everything that agents published.

`--check` and `--force` run before that, while agents still run: see `retract_holders.py`.
"""

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairlead.cli.cluster import retract_holders
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show
from fairlead.cli.output.table import Table
from fairlead.cli.output.terminal import Page, show_page
from fairlead.cli.shell import options as shared
from fairlead.errors import UserError
from fairlead.keys import DOMAIN, PREFIX

if TYPE_CHECKING:
    from fairlead.cluster.api import ClusterClient
    from fairlead.cluster.objects import Node

_PAUSE = 2.0
"""Seconds between two passes."""
_HEAD = ("NODE", "LABELS", "ANNOTATIONS", "RESOURCES", "SLICES")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "retract",
        help="remove what agents published to a cluster",
        description="Remove the labels, annotations, slices and empty resources that agents published on the "
        "nodes of a cluster, and the kind ModelProfile unless there are profiles of it. Run it after the "
        "agents are gone: a running agent publishes again. Before that, --check waits until no pod holds a "
        "device of fairlead, and --force releases the devices that pods hold.",
    )
    command.add_argument("node", nargs="*", metavar="NODE", help="only these nodes (default: all)")
    shared.add_cluster(command)
    before = command.add_mutually_exclusive_group()
    before.add_argument(
        "--check",
        action="store_true",
        help="wait until no pod holds a device of fairlead; if some do, print their names and exit with 1",
    )
    before.add_argument(
        "--force",
        action="store_true",
        help="delete the pods that hold devices of fairlead; a taint keeps new ones off until the uninstall",
    )
    command.add_argument(
        "--dry-run", action="store_true", help="print what would be removed, and remove nothing"
    )
    command.add_argument(
        "--wait",
        metavar="TIME",
        help="repeat for this long: agents that are ending may publish once more, and pods need time to "
        f"end (default: once; with --check and --force {retract_holders.WAIT})",
    )
    command.add_argument("--yes", action="store_true", help="confirm; without this nothing is removed")
    shared.add_output(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    import asyncio

    from fairlead.cluster.config import kubeconfig

    if not options.yes and not options.dry_run and not options.check:
        what = (
            "deletes pods"
            if options.force
            else "removes labels, annotations, slices and resources from nodes"
        )
        raise UserError(
            f"retract{' --force' if options.force else ''} {what}",
            "look first with --dry-run, then add --yes",
        )
    if options.node and (options.check or options.force):
        raise UserError("--check and --force apply to the whole cluster", "leave the names of nodes out")
    before = options.check or options.force
    seconds = _parse_wait(options.wait or (retract_holders.WAIT if before else "0s"))
    config = kubeconfig.load(options.kubeconfig, options.context)
    if before:
        return (retract_holders.check if options.check else retract_holders.force)(config, options, seconds)
    with progress("removing what agents published"):
        rows, kept = asyncio.run(_retract_for(config, options, seconds))
    if kept:
        stay, them = ("model profile stays", "it") if kept == 1 else ("model profiles stay", "them")
        print(
            f"{kept} {stay}; `fairlead profiles export` saves {them}, "
            f"`kubectl delete crd modelprofiles.{DOMAIN}` removes {them}",
            file=sys.stderr,
        )
    if options.output != "table":
        show(rows, options.output)
        return 0
    table = [tuple(str(row[key.lower()]) for key in _HEAD) for row in rows]
    show_page(Page.of(Table.of(_HEAD, table) if table else "nothing was published"), options.color)
    return 0


def _parse_wait(text: str) -> float:
    from fairlead.errors import SettingsError
    from fairlead.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError:
        raise SettingsError(f"--wait {text}: not a duration", "write it like 500ms, 10s or 5m") from None


async def _retract_for(
    config: Any, options: argparse.Namespace, period: float
) -> tuple[list[dict[str, Any]], int]:
    """Retract, and repeat until the period ends; return what was removed, by node, and the profiles kept."""
    import asyncio
    import time

    from fairlead.cluster.client import Client
    from fairlead.modelprofiles.store import delete_kind

    until, rows = time.monotonic() + period, await _retract(config, options)
    while not options.dry_run and time.monotonic() < until:
        await asyncio.sleep(min(_PAUSE, max(0.0, until - time.monotonic())))
        for row in await _retract(config, options):
            rows = [*(each for each in rows if each["node"] != row["node"]), row]
    if options.node:
        return rows, 0
    async with Client.connect(config) as client:
        return rows, await delete_kind(client, dry=options.dry_run)


async def _retract(config: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    from fairlead.cluster.client import Client
    from fairlead.cluster.kinds import NODES, RESOURCE_SLICES
    from fairlead.errors import MissingApiError, NotFoundError

    async with Client.connect(config) as client:
        nodes = (await client.list(NODES)).items
        missing = sorted(set(options.node) - {node.metadata.name for node in nodes})
        if missing:
            raise NotFoundError(f"there is no node {missing[0]!r}", "list the nodes: fairlead nodes")
        try:
            slices = (await client.list(RESOURCE_SLICES, fields=f"spec.driver={DOMAIN}")).items
        except MissingApiError:  # before Kubernetes 1.34
            slices = ()
        rows: list[dict[str, Any]] = []
        for node in nodes:
            if options.node and node.metadata.name not in options.node:
                continue
            mine = [slice_.metadata.name for slice_ in slices if slice_.spec.node_name == node.metadata.name]
            row = await _retract_node(client, node, mine, dry=options.dry_run)
            rows += [row] if any(row[key.lower()] for key in _HEAD[1:]) else []
        return rows


async def _retract_node(
    cluster: "ClusterClient", node: "Node", slices: list[str], *, dry: bool
) -> dict[str, Any]:
    """Remove what was published on one node; return the counts."""
    from contextlib import suppress

    from fairlead.cluster.holders import untaint_node
    from fairlead.cluster.kinds import NODES, RESOURCE_SLICES
    from fairlead.errors import NotFoundError
    from fairlead.publish.node_patch import unpublish_patch

    name = node.metadata.name
    patch = unpublish_patch(node.metadata.labels, node.metadata.annotations) or {"metadata": {}}
    empty = sorted(empty_resources(node.status.capacity) & empty_resources(node.status.allocatable))
    if not dry:
        if patch["metadata"]:
            await cluster.patch(NODES, name, patch)
        if empty:
            gone = dict.fromkeys(empty)
            await cluster.patch_status(NODES, name, {"status": {"capacity": gone, "allocatable": gone}})
        await untaint_node(cluster, node)
        for slice_ in slices:
            with suppress(NotFoundError):  # the kubelet removes the slices of a driver that is gone
                await cluster.delete(RESOURCE_SLICES, slice_)
    return {
        "node": name,
        "labels": len(patch["metadata"].get("labels", ())),
        "annotations": len(patch["metadata"].get("annotations", ())),
        "resources": len(empty),
        "slices": len(slices),
    }


def empty_resources(amounts: Mapping[str, str]) -> set[str]:
    """Return the resources of fairlead with an amount of 0: a kubelet keeps their names for ever."""
    return {name for name, amount in amounts.items() if name.startswith(PREFIX) and amount == "0"}
