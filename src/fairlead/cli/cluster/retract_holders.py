"""`fairlead retract --check` and `--force`: which pods still hold devices, and how they are released."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from fairlead.cli.output.show import show
from fairlead.errors import ClusterError
from fairlead.keys import RETRACTING
from fairlead.units import pluralize

if TYPE_CHECKING:
    from fairlead.cluster.holders import DeviceHolder

WAIT = "2m"
"""How long both wait unless they are told otherwise."""
_MOST = 20
"""Holders that one message names."""
_NONE = "no pod and no claim holds a device of ours"


def check(config: Any, options: argparse.Namespace, seconds: float) -> int:
    """Wait until no pod and no claim holds a device of ours; say which do where that does not come."""
    import asyncio

    left = asyncio.run(_check(config, seconds))
    if options.output != "table":
        show([each.to_json() for each in left], options.output)
    if left:
        raise ClusterError(
            f"after {seconds:.0f} s devices of ours are still held, by {_count(left)}: {_names(left)}",
            "end them (kubectl delete, or scale down what makes them), or let `fairlead retract --force "
            "--yes` release them; then uninstall again. Without agents these pods would stay in Terminating",
        )
    if options.output == "table":
        print(_NONE)
    return 0


def force(config: Any, options: argparse.Namespace, seconds: float) -> int:
    """Delete the pods that hold devices of ours, and wait until their nodes' agents have let go of them."""
    import asyncio

    found, left, nodes = asyncio.run(_force(config, seconds, dry=options.dry_run))
    if options.output != "table":
        show([each.to_json() for each in found], options.output)
    if options.dry_run:
        if options.output == "table":
            print(f"would release {_count(found)}: {_names(found)}" if found else _NONE)
        return 0
    if left:
        raise ClusterError(
            f"after {seconds:.0f} s devices of ours are still held, by {_count(left)}: {_names(left)}",
            "does an agent run on their nodes (fairlead doctor)? Only it can end a claim there: where the "
            "chart is gone, install it again, and run this once more",
        )
    if options.output == "table":
        print(f"released {_count(found)}" if found else _NONE)
    if nodes:
        _print_error(
            f"until the uninstall the taint {RETRACTING} keeps new pods off {', '.join(nodes)}; "
            f"to keep fairlead instead: kubectl taint nodes NODE {RETRACTING}-"
        )
    return 0


async def _check(config: Any, seconds: float) -> "list[DeviceHolder]":
    from fairlead.cluster.client import Client
    from fairlead.cluster.holders import wait_for_holders

    async with Client.connect(config) as client:
        return await wait_for_holders(client, seconds, _print_holders)


async def _force(
    config: Any, seconds: float, *, dry: bool
) -> "tuple[list[DeviceHolder], list[DeviceHolder], list[str]]":
    """Return the holders that there were, those that are left, and the nodes that were closed to new pods."""
    from fairlead.cluster.client import Client
    from fairlead.cluster.holders import list_holders, release_holders, taint_nodes, wait_for_holders

    async with Client.connect(config) as client:
        found = await list_holders(client)
        if dry:
            return found, [], []
        nodes = await taint_nodes(client)

        async def release(holders: "list[DeviceHolder]") -> None:
            await release_holders(client, holders)

        return found, await wait_for_holders(client, seconds, _print_holders, release), nodes


def _count(found: "list[DeviceHolder]") -> str:
    pods = sum(bool(each.pod) for each in found)
    loose = len(found) - pods
    parts = [pluralize(pods, "pod")] if pods else []
    parts += [f"{pluralize(loose, 'claim')} without a pod"] if loose else []
    return " and ".join(parts)


def _names(found: "list[DeviceHolder]") -> str:
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return "; ".join(str(each) for each in found[:_MOST]) + more


def _print_holders(found: "list[DeviceHolder]") -> None:
    _print_error(f"devices of ours are held by {_count(found)}: {_names(found)}")


def _print_error(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
