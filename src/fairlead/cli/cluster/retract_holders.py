"""`fairlead retract --check` and `--force`: the pods that still hold devices, and their release."""

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
"""The default of --wait with --check and --force."""
_MOST = 20
"""The most holders that one message names."""
_NONE = "no pod and no claim holds a device of fairlead"


def check(config: Any, options: argparse.Namespace, seconds: float) -> int:
    """Wait until no pod and no claim holds a device of fairlead; raise with their names if some still do."""
    import asyncio

    left = asyncio.run(_check(config, seconds))
    if options.output != "table":
        show([each.to_json() for each in left], options.output)
    if left:
        raise ClusterError(
            f"after {seconds:.0f} s devices of fairlead are still held by {_count(left)}: {_names(left)}",
            "delete them (or scale down their controllers), or let `fairlead retract --force "
            "--yes` release them; then uninstall again. Without agents these pods would stay Terminating",
        )
    if options.output == "table":
        print(_NONE)
    return 0


def force(config: Any, options: argparse.Namespace, seconds: float) -> int:
    """Delete the pods that hold devices of fairlead, and wait until their nodes' agents release them."""
    import asyncio

    holders, left, nodes = asyncio.run(_force(config, seconds, dry=options.dry_run))
    if options.output != "table":
        show([holder.to_json() for holder in holders], options.output)
    if options.dry_run:
        if options.output == "table":
            print(f"would release {_count(holders)}: {_names(holders)}" if holders else _NONE)
        return 0
    if left:
        raise ClusterError(
            f"after {seconds:.0f} s devices of fairlead are still held by {_count(left)}: {_names(left)}",
            "check that an agent runs on their nodes (fairlead doctor): only an agent can release a claim; "
            "if the chart is gone, install it again, and repeat this command",
        )
    if options.output == "table":
        print(f"released {_count(holders)}" if holders else _NONE)
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
    """Return the holders before, those that are left, and the nodes that were tainted against new pods."""
    from fairlead.cluster.client import Client
    from fairlead.cluster.holders import list_holders, release_holders, taint_nodes, wait_for_holders

    async with Client.connect(config) as client:
        holders = await list_holders(client)
        if dry:
            return holders, [], []
        nodes = await taint_nodes(client)

        async def release(holders: "list[DeviceHolder]") -> None:
            await release_holders(client, holders)

        return holders, await wait_for_holders(client, seconds, _print_holders, release), nodes


def _count(holders: "list[DeviceHolder]") -> str:
    pods = sum(bool(holder.pod) for holder in holders)
    loose = len(holders) - pods
    parts = [pluralize(pods, "pod")] if pods else []
    parts += [f"{pluralize(loose, 'claim')} without a pod"] if loose else []
    return " and ".join(parts)


def _names(holders: "list[DeviceHolder]") -> str:
    more = f" and {len(holders) - _MOST} more" if len(holders) > _MOST else ""
    return "; ".join(str(holder) for holder in holders[:_MOST]) + more


def _print_holders(holders: "list[DeviceHolder]") -> None:
    _print_error(f"devices of fairlead are held by {_count(holders)}: {_names(holders)}")


def _print_error(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
