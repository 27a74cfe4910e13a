"""`fairlead debug-dump`: what a cluster or this machine looks like, without secrets, in one archive."""

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.progress import Progress, progress
from fairlead.cli.output.show import show
from fairlead.cli.output.table import Table
from fairlead.cli.output.terminal import Page, show_page
from fairlead.cli.shell import options as shared
from fairlead.errors import FairleadError, SettingsError
from fairlead.units import format_bytes, pluralize

if TYPE_CHECKING:
    from fairlead.cluster.config.types import ClusterConfig
    from fairlead.dump.archive import DumpBuilder

_LINES: Final = 200
_HEAD: Final = ("PART", "FILES", "SIZE")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "debug-dump",
        help="write one archive about a cluster or this machine for a fault report, without secrets",
        description="Write one archive for a fault report: a snapshot, versions, conditions, events, Leases, "
        "the last lines of the logs of fairlead's programs, their metrics pages and the findings of "
        "`fairlead doctor`. Secrets, tokens, values of environment variables and credentials on command "
        "lines are removed; names and labels stay. Nothing is changed or sent. With --snapshot, "
        "`fairlead schedule`, `fairlead explain` and `fairlead dashboard` read it.",
    )
    command.add_argument(
        "--out", metavar="FILE", help="the archive to write (default: fairlead-dump-TIME.tar.gz)"
    )
    command.add_argument("--here", action="store_true", help="dump this machine and its jobs, not a cluster")
    command.add_argument(
        "--log-lines",
        metavar="N",
        type=int,
        default=_LINES,
        help="the last lines of each log; 0: no logs (default: %(default)s)",
    )
    command.add_argument(
        "--scheduler",
        metavar="NAME",
        default="fairlead",
        help="the schedulerName of fairlead's scheduler (default: %(default)s)",
    )
    shared.add_cluster(command)
    shared.add_catalog(command)
    shared.add_output(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.log_lines < 0:
        raise SettingsError(f"--log-lines {options.log_lines}: less than 0", "write 0 for no logs")
    taken, path = _now(options.out)
    _check_path(path)
    with progress("reading this machine" if options.here else "reading the cluster") as bar:
        builder = _here(options, taken) if options.here else _cluster(options, taken, bar)
    _write(path, builder.pack())
    if options.output == "table":
        show_page(_page(path, builder), options.color)
    else:
        show({"file": path, **builder.index()}, options.output)
    return 0


def _now(out: str | None) -> tuple[str, str]:
    """Return the time, and the path of the archive."""
    from datetime import datetime

    from fairlead.compat.times import UTC

    now = datetime.now(UTC)
    return f"{now:%Y-%m-%dT%H:%M:%SZ}", out or f"fairlead-dump-{now:%Y%m%d-%H%M%S}.tar.gz"


def _here(options: argparse.Namespace, taken: str) -> "DumpBuilder":
    from fairlead.cli.dump.here import dump_machine

    return dump_machine(options, taken)


def _cluster(options: argparse.Namespace, taken: str, bar: Progress) -> "DumpBuilder":
    import asyncio

    from fairlead.cluster.config import kubeconfig

    config = kubeconfig.load(options.kubeconfig, options.context)
    return asyncio.run(_read_cluster(config, options, taken, bar))


async def _read_cluster(
    config: "ClusterConfig", options: argparse.Namespace, taken: str, bar: Progress
) -> "DumpBuilder":
    from fairlead.cluster.client import Client
    from fairlead.dump.archive import DumpBuilder
    from fairlead.dump.cluster import DumpOptions, dump_cluster
    from fairlead.dump.scrub import Scrubber
    from fairlead.keys import PREFIX

    login = config.login
    known = [text for text in (login.token, login.key.decode(errors="replace")) if text]
    source = config.context or config.server
    builder = DumpBuilder(source, taken, Scrubber(known, keep_annotations=PREFIX))
    async with Client.connect(config) as client:
        await client.version()  # a cluster that is away ends the command here
        catalog = shared.catalog_of(options)
        await dump_cluster(client, catalog, source, DumpOptions(options.log_lines), builder)
        bar.set_status("checking it as fairlead doctor does")
        try:
            findings = await _doctor(client, options.scheduler)
        except FairleadError as error:
            builder.miss("doctor.json", error)
        else:
            builder.add("doctor.json", findings)
    return builder


async def _doctor(client: Any, scheduler: str) -> list[dict[str, Any]]:
    import asyncio
    from datetime import datetime

    from fairlead.compat.times import UTC
    from fairlead.doctor.read import ApiServerReviews
    from fairlead.doctor.second_look import examine_cluster

    reviews = ApiServerReviews(client)
    findings = await examine_cluster(reviews, client, lambda: datetime.now(UTC), scheduler, asyncio.sleep)
    return [each.to_json() for each in findings]


def _check_path(path: str) -> None:
    from fairlead.outfile import check_writable

    try:
        check_writable(path)
    except OSError as error:
        raise SettingsError(f"--out {path}: {error.strerror}", "name a file that can be written") from None


def _write(path: str, data: bytes) -> None:
    """Write the archive for its user alone: it has no secrets, but names and labels."""
    import os

    from fairlead.outfile import atomic_write

    before = os.umask(0o077)
    try:
        with atomic_write(path) as stream:
            stream.write(data)
    except OSError as error:
        raise SettingsError(f"--out {path}: {error.strerror}", "name a file that can be written") from None
    finally:
        os.umask(before)
    print(f"wrote {path} ({format_bytes(len(data))})", file=sys.stderr)


def _page(path: str, builder: "DumpBuilder") -> Page:
    """Return what the archive holds, what was removed, and what is missing."""
    parts: dict[str, list[int]] = {}
    for name, data in builder.parts.items():
        parts.setdefault(name.partition("/")[0], []).append(len(data))
    rows = [(name, str(len(sizes)), format_bytes(sum(sizes))) for name, sizes in sorted(parts.items())]
    missing = [f"missing: {each['what']}: {each['why']}" for each in builder.missing]
    removed = f"{pluralize(builder.scrubber.removed, 'value')} removed; names, labels and addresses are in it"
    return Page.of(Table.of(_HEAD, rows), "", *missing, removed, f"read it: tar -tzf {path}")
