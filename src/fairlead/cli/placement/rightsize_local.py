"""`fairlead rightsize --local`: the commands of one user on this machine; needs no cluster."""

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Final

from fairlead.cli.output.show import show
from fairlead.cli.output.table import Cell, Column, Fit, Table
from fairlead.cli.output.terminal import Page, show_page
from fairlead.cli.placement.rightsize_page import TONES, risk_text, size_cell
from fairlead.errors import SettingsError
from fairlead.units import format_bytes, pluralize

if TYPE_CHECKING:
    from fairlead.history.store import JobHistory
    from fairlead.rightsize.local import LocalRecommendation, LocalSizeReport

_HEAD: Final = (
    Column("COMMAND", Fit.MIDDLE),
    Column("RESOURCE"),
    Column("RUNS"),
    Column("REQUESTED"),
    Column("PEAK"),
    Column("MEAN"),
    Column("RECOMMENDED"),
    Column("RISK/RUN"),
    Column("VERDICT"),
    Column("REASON", Fit.PROSE),
)
_OF_CLUSTERS: Final = (
    ("snapshot", "--snapshot"),
    ("assume_request", "--assume-request"),
    ("device_memory", "--device-memory"),
    ("namespace", "--namespace"),
    ("all_namespaces", "--all-namespaces"),
    ("apply", "--apply"),
    ("undo", "--undo"),
    ("dry_run", "--dry-run"),
    ("yes", "--yes"),
    ("kubeconfig", "--kubeconfig"),
    ("context", "--context"),
    ("prometheus_token_file", "--prometheus-token-file"),
    ("prometheus_ca_file", "--prometheus-ca-file"),
)
"""Options about a cluster or about files, by their names in the namespace."""


def applies(options: argparse.Namespace) -> bool:
    """Return whether to read the history of this machine: as asked, or because there is no cluster."""
    stated = [option for name, option in _OF_CLUSTERS if getattr(options, name)]
    if options.local:
        if stated:
            raise SettingsError(f"{stated[0]} does not go with --local", "leave it out, or leave out --local")
        return True
    if getattr(options, "kubectl", False):
        return False
    if stated or options.prometheus or options.series or _names_cluster() or not _history(make=False):
        return False
    print("fairlead: no cluster is configured: reading your history on this machine", file=sys.stderr)
    return True


def run(options: argparse.Namespace, bound: float, window: float | None) -> int:
    """Show the report; the exit code is 1 if another size should be stated for a command."""
    from fairlead.rightsize.local import local_report

    history = _history(make=True)
    learned = history.all_learned() if history else ()
    if options.workload:
        known = {command.name for command in learned}
        for name in options.workload:
            if name not in known:
                raise SettingsError(
                    f"{name}: no such command has run here", "list all: leave the names of commands out"
                )
        learned = tuple(command for command in learned if command.name in options.workload)
    report = local_report(learned, bound, time.time(), window)
    if options.output == "table":
        _show(report, options.color)
    else:
        show(report.to_json(), options.output)
    return 1 if report.changes else 0


def _history(*, make: bool) -> "JobHistory | None":
    """Return the history of this user; None: there is none, and it is not to be made."""
    from fairlead.history.store import JobHistory
    from fairlead.ledger.place import StateDirectory, state_path, user_folder

    path = state_path(os.environ)
    if not make and not os.path.isdir(os.path.join(path, user_folder(os.geteuid()))):
        return None
    history = JobHistory.open(StateDirectory.open(os.environ), os.environ)
    return history if make or os.path.exists(history.path) else None


def _names_cluster() -> bool:
    """Return whether the user has a cluster: a file, a variable, or the account of a pod."""
    home = os.path.join(os.path.expanduser("~"), ".kube", "config")
    return any(os.environ.get(name) for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST")) or os.path.exists(
        home
    )


def _show(report: "LocalSizeReport", color: str) -> None:
    if not report.recommendations:
        show_page(Page.of("no command has been measured here yet: fairlead run -- COMMAND"), color)
        return
    changes, all_ = len(report.changes), len(report.recommendations)
    saved = sum(each.saving for each in report.recommendations)
    text = f"{changes} of {pluralize(all_, 'row')} should have another size"
    text += f", which {'saves' if saved >= 0 else 'takes'} {format_bytes(abs(saved))}" if changes else ""
    show_page(Page.of(Table.of(_HEAD, map(_row, report.recommendations)), "", text), color)


def _row(each: "LocalRecommendation") -> tuple[Cell, ...]:
    advice, peaks = each.advice, each.peaks
    mean = round(sum(peaks) / len(peaks)) if peaks else None
    return (
        Cell(each.name),
        Cell(each.resource),
        Cell(str(each.runs), each.runs),
        size_cell(each.requested),
        size_cell(peaks[-1] if peaks else None),
        size_cell(mean),
        size_cell(advice.size),
        Cell(risk_text(advice.risk), advice.risk),
        Cell(advice.verdict.value, tone=TONES.get(advice.verdict.value)),
        Cell(advice.reason),
    )
