"""`fairlead rightsize`: workloads that request too much or too little of accelerators, and the right size."""

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.show import show
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError

if TYPE_CHECKING:
    from fairlead.rightsize.report import AdviceOptions, SizeReport
    from fairlead.rightsize.workload import PodSeries, SizedContainer
    from fairlead.units import Bytes

WINDOW: Final = "24h"
"""How far back samples count where no option says it."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "rightsize",
        help="find workloads that request too much or too little of accelerators",
        description="Compare what workloads request of accelerators with the memory that their pods have "
        "used, and recommend a size for each, with the estimated probability that a pod exceeds it within a "
        "day. The exit code is 1 if a workload should request another size. With --apply the sizes are "
        "written to the owners of the pods, after a dry run and a question; --undo restores them. With "
        "--local, the commands that you ran on this machine take the place of workloads.",
    )
    command.add_argument(
        "workload",
        metavar="WORKLOAD",
        nargs="*",
        help="only these, as kind/name: deployment/web; with --local, names of commands (default: all)",
    )
    _add_sources(command)
    _add_requests(command)
    _add_rules(command)
    _add_writes(command)
    shared.add_cluster(command)
    shared.add_catalog(command)
    shared.add_output(command)
    command.set_defaults(run=run)


def _add_sources(command: argparse.ArgumentParser) -> None:
    source = command.add_mutually_exclusive_group()
    source.add_argument("--prometheus", metavar="URL", help="read the series from this Prometheus")
    source.add_argument(
        "--series",
        metavar="FILE",
        help="read the series from a CSV file: timestamp, value (bytes), and namespace, pod, container, "
        "device, or one column that names the series; .gz and .tar.gz are read, - is the standard input",
    )
    source.add_argument(
        "--local",
        action="store_true",
        help="read your history of fairlead run and submit on this machine; no cluster is needed (default if "
        "no cluster is configured and there is a history)",
    )
    command.add_argument(
        "--prometheus-token-file", metavar="FILE", default="", help="a bearer token for Prometheus"
    )
    command.add_argument(
        "--prometheus-ca-file", metavar="FILE", default="", help="certificate authorities of Prometheus (PEM)"
    )


def _add_requests(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--snapshot",
        metavar="FILE",
        help="read the requests from a file of fairlead snapshot or kubectl get -o json (default: the "
        "cluster)",
    )
    command.add_argument(
        "--assume-request",
        metavar="SIZE",
        help="with --series alone: every series requests this, 8GiB, or this many times its peak, 1.5x",
    )
    command.add_argument(
        "--device-memory",
        metavar="SIZE",
        help="with --assume-request: the memory of an accelerator, to count the saving in accelerators",
    )
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "-n", "--namespace", metavar="NS", help="the namespace (default: the context's; of a file, all)"
    )
    where.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")


def _add_rules(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--bound",
        metavar="P",
        default="0.01",
        help="the probability, at most, that a pod exceeds its size within a day (default: %(default)s)",
    )
    command.add_argument(
        "--window",
        metavar="TIME",
        help=f"how far back samples count (default: {WINDOW}; of the history, all runs that it keeps)",
    )
    command.add_argument(
        "--min-samples",
        metavar="N",
        type=int,
        default=100,
        help="the least samples of a workload (default: %(default)s)",
    )


def _add_writes(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--apply",
        action="store_true",
        help="write the sizes to the owners of the pods; this restarts the pods",
    )
    command.add_argument(
        "--undo",
        metavar="WORKLOAD",
        help="restore the sizes of an owner that --apply has changed: deployment/web",
    )
    command.add_argument(
        "--dry-run", action="store_true", help="with --apply or --undo: show the changes, and write nothing"
    )
    command.add_argument("--yes", action="store_true", help="with --apply or --undo: do not ask")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.cli.placement import rightsize_local

    if rightsize_local.applies(options):
        bound, window = _bound(options), _window(options)
        return rightsize_local.run(options, bound, window)
    return _run_cluster(options)


def _run_cluster(options: argparse.Namespace) -> int:
    from fairlead.cli.placement import rightsize_apply, rightsize_page

    _check(options)
    if options.undo:
        return rightsize_apply.undo(options)
    report = _report(options)
    if report.unmatched and not options.workload:
        print(
            f"fairlead: {report.unmatched} series belong to no container that requests an accelerator",
            file=sys.stderr,
        )
    if options.apply:
        return rightsize_apply.apply(report, options)
    if options.output == "table":
        rightsize_page.show_report(report, options.color)
    else:
        show(report.to_json(), options.output)
    return 1 if report.changes else 0


def _check(options: argparse.Namespace) -> None:
    """Reject options that do not go together."""
    if options.undo:
        return
    if not (options.prometheus or options.series):
        raise SettingsError(
            "no series are named",
            "give the address of a Prometheus with --prometheus, a file with --series, or --local for your "
            "history on this machine",
        )
    if options.assume_request and (options.snapshot or not options.series):
        raise SettingsError(
            "--assume-request goes with --series alone", "leave it out: the requests are known"
        )
    if options.device_memory and not options.assume_request:
        raise SettingsError("--device-memory goes with --assume-request", "leave it out: the memory is known")
    if options.apply and (options.snapshot or options.assume_request):
        raise SettingsError(
            "--apply needs the cluster itself",
            "leave out --snapshot and --assume-request: owners are changed there",
        )
    if (options.dry_run or options.yes) and not options.apply:
        raise SettingsError("--dry-run and --yes go with --apply or --undo", "add --apply, or leave them out")


def _report(options: argparse.Namespace) -> "SizeReport":
    from fairlead.cli.placement.rightsize_sources import cluster_requests, file_requests, prometheus_series
    from fairlead.rightsize.csvfile import read_series
    from fairlead.rightsize.report import report

    advice = _advice_options(options)
    if options.series:
        series, gaps = read_series(options.series)
        if gaps:
            print(
                f"fairlead: {options.series}: {gaps} samples have no value, and do not count", file=sys.stderr
            )
        advice = _at_end_of(series, advice)
    else:
        series = prometheus_series(options, advice)
    if options.assume_request:
        containers = _assumed(options, series)
    elif options.snapshot:
        containers = file_requests(options)
    else:
        containers = cluster_requests(options)
    wanted = [
        each for each in series if options.namespace in (None, "", each.namespace) or not each.namespace
    ]
    return report(_selected(containers, options), wanted, advice)


def _at_end_of(series: "tuple[PodSeries, ...]", advice: "AdviceOptions") -> "AdviceOptions":
    """Return options with the time of the last sample: a file is a recording."""
    from dataclasses import replace

    ends = [each.memory.times[-1] for each in series if each.memory]
    return replace(advice, now=max(ends)) if ends else advice


def _advice_options(options: argparse.Namespace) -> "AdviceOptions":
    import time

    from fairlead.rightsize.report import AdviceOptions

    bound, window = _bound(options), _window(options)
    if options.min_samples < 2:
        raise SettingsError(f"--min-samples {options.min_samples}: less than 2", "write at least 2")
    return AdviceOptions(time.time(), bound, window or _seconds(WINDOW), options.min_samples)


def _bound(options: argparse.Namespace) -> float:
    try:
        bound = float(options.bound)
    except ValueError:
        bound = 0.0
    if not 0 < bound < 1:
        raise SettingsError(f"--bound {options.bound}: not a probability", "write it like 0.01")
    return bound


def _window(options: argparse.Namespace) -> float | None:
    """Return the seconds before now that count; None: not stated."""
    if options.window is None:
        return None
    window = _seconds(options.window)
    if not 60 <= window <= 90 * 86400:
        raise SettingsError(f"--window {options.window}: not a period from 1m to 2160h", "write it like 24h")
    return window


def _seconds(text: str) -> float:
    from fairlead.units import parse_duration

    try:
        return float(parse_duration(text))
    except ValueError:
        return 0.0


def _assumed(options: argparse.Namespace, series: "tuple[PodSeries, ...]") -> "list[SizedContainer]":
    from fairlead.rightsize.matching import assumed

    text = options.assume_request.strip()
    device = _size("--device-memory", options.device_memory) if options.device_memory else None
    if not text.endswith("x"):
        return assumed(series, None, _size("--assume-request", text), device)
    try:
        factor = float(text.removesuffix("x"))
    except ValueError:
        factor = 0.0
    if not 0 < factor <= 1000:
        raise SettingsError(f"--assume-request {text}: not a factor above 0", "write it like 1.5x or 8GiB")
    return assumed(series, factor, None, device)


def _size(option: str, text: str) -> "Bytes":
    from fairlead.errors import ManifestError
    from fairlead.manifest.amounts import device_memory

    try:
        return device_memory(option, text)
    except ManifestError as error:
        raise SettingsError(str(error), error.hint) from None


def _selected(containers: "list[SizedContainer]", options: argparse.Namespace) -> "list[SizedContainer]":
    """Return the containers of the workloads that the options name."""
    from fairlead.cli.placement.rightsize_apply import parse_workload

    if options.namespace:
        containers = [each for each in containers if each.workload.namespace == options.namespace]
    if not options.workload:
        return containers
    wanted = [parse_workload(text) for text in options.workload]
    for kind, name in wanted:
        if not any((each.workload.kind, each.workload.name) == (kind, name) for each in containers):
            raise SettingsError(
                f"no {kind} {name} requests accelerators", "list all: leave the names of workloads out"
            )
    return [each for each in containers if (each.workload.kind, each.workload.name) in wanted]
