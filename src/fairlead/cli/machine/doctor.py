"""`fairlead doctor`: check the parts of an installation that an operator may forget."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from fairlead.cli.output.listing import select_columns, sorted_by
from fairlead.cli.output.progress import Progress, progress
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Cell, Column, Fit, Tone
from fairlead.cli.output.terminal import Page, show_page
from fairlead.cli.shell import options as shared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.doctor.finding import Finding
    from fairlead.doctor.local_jobs import JobResources
    from fairlead.host import Host
    from fairlead.inventory import Inventory
    from fairlead.local.view import DeviceView

_HEAD = (Column("CHECK", Fit.KEEP), Column(""), Column("FINDING", Fit.PROSE))
_WIDE = (Column("CHECK", Fit.KEEP), Column("VERDICT"), Column("FINDING"), Column("TO DO"))
_TONES = {"ok": Tone.GOOD, "warn": Tone.WARN, "fail": Tone.BAD}
_ORDER = tuple(_TONES)


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "doctor",
        help="check a cluster with fairlead on it, or this machine",
        description="Check a cluster with fairlead on it, or this machine: what is well, what is not, "
        "and what to do. Nothing is changed. The exit code is 1 if a check fails.",
    )
    command.add_argument("--here", action="store_true", help="check this machine, not a cluster")
    command.add_argument(
        "--scheduler",
        metavar="NAME",
        default="fairlead",
        help="the schedulerName of fairlead's scheduler (default: %(default)s)",
    )
    command.add_argument(
        "--prometheus", metavar="URL", default="", help="check the measured use in this Prometheus too"
    )
    command.add_argument(
        "--prometheus-token-file", metavar="FILE", default="", help="a bearer token for Prometheus"
    )
    command.add_argument(
        "--prometheus-ca-file", metavar="FILE", default="", help="certificate authorities of Prometheus"
    )
    command.add_argument("-q", "--quiet", action="store_true", help="print only what is not well")
    shared.add_cluster(command)
    shared.add_catalog(command)
    shared.add_list(command, _WIDE)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    findings = _examine(options)
    from fairlead.doctor.finding import Severity, worst  # after _examine, which names a missing extra

    shown = [finding for finding in findings if not options.quiet or finding.verdict is not Severity.OK]
    shown = sorted_by(shown, options.sort_by, _WIDE, _row, lambda each: each.to_json())
    if options.output in ("json", "yaml"):
        show([each.to_json() for each in shown], options.output)
    elif options.output == "name":
        names = list(dict.fromkeys(each.check for each in shown))
        show_list(_WIDE[:1], [(name,) for name in names], "name", headers=False)
    elif shown:
        show_page(table(shown, options.output, headers=not options.no_headers), options.color)
    return 1 if worst(findings) is Severity.FAIL else 0


def _examine(options: argparse.Namespace) -> "list[Finding]":
    import asyncio

    place = "this machine" if options.here else "the cluster"
    with progress(f"checking {place}") as bar:
        return examine_here(options) if options.here else asyncio.run(_cluster(options, bar))


def table(findings: "list[Finding]", output: str = "table", *, headers: bool = True) -> Page:
    """Return findings as a page for people: each finding, and below it (`wide`: beside it) what to do."""
    if output == "wide":
        return Page.of(select_columns(_WIDE, [_row(each) for each in findings], output, headers=headers))
    rows: list[tuple[str | Cell, ...]] = []
    for finding in findings:
        rows.append(_row(finding)[:3])
        rows += [("", "", f"  {finding.todo}")] if finding.todo else []
    return Page.of(select_columns(_HEAD, rows, output, headers=headers))


def _row(each: "Finding") -> tuple[str | Cell, ...]:
    verdict = each.verdict.value
    return each.check, Cell(verdict, _ORDER.index(verdict), _TONES[verdict]), each.text, each.todo or "-"


async def _cluster(options: argparse.Namespace, bar: Progress) -> "list[Finding]":
    import asyncio
    from datetime import datetime

    from fairlead.cluster.client import Client
    from fairlead.cluster.config import kubeconfig
    from fairlead.compat.times import UTC
    from fairlead.doctor.read import ApiServerReviews
    from fairlead.doctor.second_look import examine_cluster
    from fairlead.usage.source import SourceName, UsageSettings, check_settings

    async def pause(seconds: float) -> None:
        bar.clear()
        print(f"checking again in {seconds:.0f} s: pods may have come and gone", file=sys.stderr)
        await asyncio.sleep(seconds)

    usage = UsageSettings(
        SourceName.PROMETHEUS,
        options.prometheus,
        options.prometheus_token_file,
        ca_file=options.prometheus_ca_file,
    )
    if options.prometheus:
        check_settings(usage)
    config = kubeconfig.load(options.kubeconfig, options.context)
    async with Client.connect(config) as client:
        return await examine_cluster(
            ApiServerReviews(client),
            client,
            lambda: datetime.now(UTC),
            options.scheduler,
            pause,
            usage if options.prometheus else None,
        )


def examine_here(options: argparse.Namespace) -> "list[Finding]":
    """Return the findings about this machine."""
    from datetime import datetime

    from fairlead.compat.times import UTC
    from fairlead.detect import detect
    from fairlead.detect.nvidia import GPUS, is_driver_loaded
    from fairlead.doctor.join import ClockStatus, examine_node
    from fairlead.doctor.kernelclock import is_synchronised
    from fairlead.doctor.local_jobs import examine_local_jobs, read_local_jobs
    from fairlead.doctor.mps import examine_mps, read_mps
    from fairlead.doctor.this_machine import ExaminedMachine, examine_machine
    from fairlead.host import Host
    from fairlead.local.machine.devices import DeviceReader
    from fairlead.local.machine.nvml_process import NvmlAnswer, NvmlProcess
    from fairlead.local.mps.device import can_mps

    host, catalog = Host("/"), shared.catalog_of(options)
    driver, nvml = is_driver_loaded(host), NvmlProcess()
    answer = nvml.read(host.names(GPUS)) if driver else NvmlAnswer()
    nvml.close()
    inventory = detect(host, catalog, answer.gpus)
    devices = DeviceReader(host).views([acc for acc in inventory.accelerators if acc.kind != "cpu"], answer)
    nodes = {accelerator.node for accelerator in inventory.accelerators if accelerator.node}
    access = {node: os.access(node, os.R_OK | os.W_OK) for node in nodes}
    failure = answer.failure.reason if answer.failure else ""
    machine = ExaminedMachine(inventory, driver, driver and not failure, failure, access)
    devices = tuple(device for device in devices if not device.accelerator.mig_instances)
    clock = ClockStatus(datetime.now(UTC), is_synchronised())
    jobs = examine_local_jobs(read_local_jobs(os.environ), _job_resources(host, inventory, devices))
    gpus = [device.accelerator.name for device in devices if can_mps(device.accelerator)]
    mps = examine_mps(read_mps(gpus, os.environ))
    return [*examine_machine(machine), *jobs, *mps, *examine_node(host, clock)]


def _job_resources(host: "Host", inventory: "Inventory", devices: "Sequence[DeviceView]") -> "JobResources":
    from fairlead.doctor.local_jobs import JobResources
    from fairlead.limiter.cgroup import cgroup_problem
    from fairlead.local.machine.limits import read_cpu, read_ram

    return JobResources(
        read_cpu(host, inventory.machine.cpus).cpu / 1000,
        read_ram(host).total,
        tuple(device.accelerator.name for device in devices),
        {device.accelerator.name: device.fault for device in devices if device.fault},
        cgroup_problem(),
    )
