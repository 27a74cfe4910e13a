"""`kubectl fairlead top`: every accelerator of a cluster, what is requested of it, and what is used."""

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.listing import sorted_by
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Cell, Column, Fit, Tone
from fairlead.cli.shell import options as shared
from fairlead.units import format_bytes, pluralize

if TYPE_CHECKING:
    from fairlead.cluster.client import Client
    from fairlead.manifest.files.snapshot import Snapshot
    from fairlead.use import DeviceKey
    from fairlead.whatif.accelerators import AcceleratorUse, MeasuredDevice

_HEAD: Final = (
    Column("NODE", Fit.KEEP),
    Column("DEVICE", Fit.KEEP),
    *map(Column, ("MODEL", "MEMORY", "REQUESTED", "USED", "BUSY")),
    Column("PODS", Fit.PROSE),
)


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "top",
        help="show every accelerator: requested, used, and by which pods",
        description="Show every accelerator of the cluster, the memory that pods requested of it, and what "
        "its agent measures now: memory in use, and the share of time with work. The agents' pages are read "
        "through the API server, which needs the right to get pods/proxy; - stands for what is not measured.",
    )
    shared.add_cluster(command)
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "-n", "--namespace", metavar="NS", help="only accelerators that pods of this namespace hold"
    )
    where.add_argument("-A", "--all-namespaces", action="store_true", help="all accelerators (default)")
    shared.add_catalog(command)
    shared.add_list(command, _HEAD)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    import asyncio

    from fairlead.whatif.accelerators import accelerator_uses

    snapshot, measured = asyncio.run(_read(options))
    uses = accelerator_uses(snapshot, measured, options.namespace or "")
    uses = sorted_by(uses, options.sort_by, _HEAD, _row, lambda each: each.to_json())
    if options.output in ("json", "yaml"):
        show({"accelerators": [each.to_json() for each in uses]}, options.output)
        return 0
    empty = f"no accelerator is held in {options.namespace}" if options.namespace else "no accelerators"
    headers = not options.no_headers
    rows = [_row(each) for each in uses]
    show_list(_HEAD, rows, options.output, headers=headers, empty=empty, color=options.color)
    return 0


async def _read(options: argparse.Namespace) -> "tuple[Snapshot, dict[DeviceKey, MeasuredDevice]]":
    from fairlead.cache.listed_cluster import ListedCluster
    from fairlead.cluster.client import Client
    from fairlead.cluster.config import kubeconfig
    from fairlead.manifest.listing import list_objects

    config = kubeconfig.load(options.kubeconfig, options.context)
    with progress("listing the cluster"):
        async with Client.connect(config) as client:
            listed = await list_objects(client)
            measured, silent = await _measured(client)
    for line in silent:
        print(f"fairlead: {line}", file=sys.stderr)
    return ListedCluster.of(listed, shared.catalog_of(options)).snapshot, measured


async def _measured(client: "Client") -> "tuple[dict[DeviceKey, MeasuredDevice], list[str]]":
    """Return what the agents' pages say, and a line about those that did not answer."""
    from fairlead.usage.page import read_page
    from fairlead.whatif.accelerators import measured_devices
    from fairlead.whatif.pod_program import NoAnswer
    from fairlead.whatif.program_pages import find_programs, read_metrics

    pages = await read_metrics(client, await find_programs(client, "agent"))
    read = {
        pod.node: page.reason if isinstance(page, NoAnswer) else read_page(page, pod.node)
        for pod, page in pages.items()
    }
    failures = [f"{node}: {rows}" for node, rows in sorted(read.items()) if isinstance(rows, str)]
    measured = measured_devices(row for rows in read.values() if not isinstance(rows, str) for row in rows)
    what = (
        f"{pluralize(len(failures), 'agent')} could not be read, for example {failures[0]}"
        if failures
        else ""
    )
    return measured, [what] if what else []


def _row(use: "AcceleratorUse") -> tuple[str | Cell, ...]:
    device, measured = use.device, use.measured
    busy = "-" if measured.busy is None else f"{measured.busy:.0%}"
    return (
        use.node,
        Cell(device.id) if device.healthy else Cell(f"{device.id} (unhealthy)", tone=Tone.BAD),
        device.model or "-",
        _bytes_cell(device.memory or None),
        _bytes_cell(use.requested),
        _bytes_cell(measured.memory),
        Cell(busy, measured.busy),
        ", ".join(use.holders) or "-",
    )


def _bytes_cell(amount: int | None) -> Cell:
    return Cell("-", None) if amount is None else Cell(format_bytes(amount), amount)
