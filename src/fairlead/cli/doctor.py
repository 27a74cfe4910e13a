"""`fairlead doctor`: look at what an operator would forget."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from fairlead.cli import options as shared
from fairlead.cli.output import FORMATS, show, to_table
from fairlead.errors import MissingPartError

if TYPE_CHECKING:
    from fairlead.doctor.finding import Finding

_HEAD = ("CHECK", "", "WHAT IS SO")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "doctor",
        help="check what an operator would forget, on a cluster or here",
        description="Look at a cluster with Fairlead on it, or at this machine: what is well, what is not, "
        "and what to do. Nothing is changed. Exit code 1 where something failed.",
    )
    command.add_argument("--here", action="store_true", help="look at this machine, not at a cluster")
    command.add_argument(
        "--scheduler", metavar="NAME", default="fairlead", help="its schedulerName (default: %(default)s)"
    )
    command.add_argument("-q", "--quiet", action="store_true", help="print only what is not well")
    shared.add_cluster(command)
    shared.add_catalog(command)
    command.add_argument("-o", "--output", choices=FORMATS, default="table", help="how to print it")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    found = _found(options)
    from fairlead.doctor.finding import Verdict, worst  # behind the look, which says what is missing

    shown = [each for each in found if not options.quiet or each.verdict is not Verdict.OK]
    if options.output != "table":
        show([each.to_json() for each in shown], options.output)
    elif shown:
        print(table(shown))
    return 1 if worst(found) is Verdict.FAIL else 0


def _found(options: argparse.Namespace) -> "list[Finding]":
    import asyncio

    try:
        return _here(options) if options.here else asyncio.run(_cluster(options))
    except ModuleNotFoundError as error:
        hint = "pip install 'fairlead[cluster]'; an image holds only what its own program needs"
        raise MissingPartError(f"doctor needs {error.name}", hint) from None


def table(found: "list[Finding]") -> str:
    """Return findings for people: what is so, and below it what to do."""
    rows = []
    for each in found:
        rows.append((each.check, each.verdict.value, each.text))
        rows += [("", "", f"  {each.todo}")] if each.todo else []
    return to_table(_HEAD, rows)


async def _cluster(options: argparse.Namespace) -> "list[Finding]":
    import asyncio
    from datetime import UTC, datetime

    from fairlead.cluster import kubeconfig
    from fairlead.cluster.client import Client
    from fairlead.doctor.read import ApiServer
    from fairlead.doctor.visit import visit

    async def pause(seconds: float) -> None:
        print(f"looking once more in {seconds:.0f} s: pods may have come and gone", file=sys.stderr)
        await asyncio.sleep(seconds)

    config = kubeconfig.load(options.kubeconfig, options.context)
    async with Client.connect(config) as client:
        return await visit(ApiServer(client), client, lambda: datetime.now(UTC), options.scheduler, pause)


def _here(options: argparse.Namespace) -> "list[Finding]":
    from fairlead import nvml
    from fairlead.detect import detect
    from fairlead.detect.nvidia import driver_is_there
    from fairlead.doctor.here import Machine, examine_here
    from fairlead.host import Host

    host, catalog = Host("/"), shared.catalog_of(options)
    driver = driver_is_there(host)
    with nvml.session() as session:
        speaks = session is not None
        inventory = detect(host, catalog, session.gpus() if session and driver else [])
    nodes = {each.node for each in inventory.accelerators if each.node}
    opens = {node: os.access(node, os.R_OK | os.W_OK) for node in nodes}
    return examine_here(Machine(inventory, driver, speaks, opens))
