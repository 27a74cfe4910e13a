"""`fairlead calibrate`: run a pack of small models on this machine's accelerators and store the timings."""

import argparse
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairlead.cli.model.profiles_cluster import (
    add_cluster,
    add_node,
    check_cluster,
    in_cluster,
    node_of,
    store_profiles,
)
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show
from fairlead.cli.output.table import Cell, Table, Tone
from fairlead.cli.output.terminal import Page, Text, show_page
from fairlead.cli.shell import options as shared
from fairlead.errors import CatalogError, ClusterError, SettingsError
from fairlead.units import format_bytes, pluralize

if TYPE_CHECKING:
    from fairlead.calibrate.campaign import CalibrationPlan
    from fairlead.calibrate.targets import CalibrationTarget, SkippedAccelerator
    from fairlead.calibration import Calibration, MeasuredRun, Trial
    from fairlead.catalog import Catalog
    from fairlead.inventory import Accelerator, Inventory
    from fairlead.modelprofiles.store import StoreCounts

_BUSY = 0.2
"""A model that waits for more than this share of the time runs on a busy machine."""
_MOST_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class CalibratedAccelerator:
    """One accelerator: its calibration, and where that is stored."""

    file: str
    calibration: "Calibration"
    stored: "StoreCounts | None"
    held: "Calibration"
    """All that the file holds: this calibration, and what earlier ones left."""

    @property
    def earlier(self) -> tuple[str, ...]:
        """The models of which the file holds an earlier run: they did not run now, or it was quieter."""
        now = {trial.features.digest: trial.measured for trial in self.calibration.trials}
        held = (trial for trial in self.held.done if trial.measured)
        return tuple(trial.model for trial in held if not _is_of(trial, now.get(trial.features.digest)))

    def to_json(self) -> dict[str, Any]:
        """Return it as a document."""
        stored = self.stored.to_json() if self.stored else None
        return {
            "file": self.file,
            "stored": stored,
            **self.calibration.to_json(),
            "earlier": list(self.earlier),
        }

    def line(self) -> str:
        """Return in words where it is stored, and what else is there."""
        if not self.earlier:
            return f"wrote {self.file}"
        kept = f"it keeps earlier runs of {pluralize(len(self.earlier), 'model')}"
        return f"wrote {self.file}: {kept}, {', '.join(self.earlier)}"


def _is_of(trial: "Trial", run: "MeasuredRun | None") -> bool:
    """Say whether a stored trial is this run; the most memory of all runs is stored with it."""
    stored = trial.measured
    return run is not None and stored is not None and (stored.made, stored.seconds) == (run.made, run.seconds)


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "calibrate",
        help="measure this machine's accelerators with a pack of small models",
        description="Run eleven small models, generated on the spot, on every accelerator of this machine "
        "that ONNX Runtime supports, and store their latency, memory and power. Predictions for this machine "
        "then start from measured speed, not from the data sheet. It takes about a minute for each "
        "accelerator; run nothing else meanwhile. It adds to what earlier calibrations stored: other models "
        "keep their results, and a noisier run replaces no quieter one.",
    )
    command.add_argument(
        "--on",
        metavar="DEVICE",
        action="append",
        default=[],
        help="only this accelerator: a name of the catalog, or an id that `fairlead detect` prints; or all "
        "of a family, vendor or kind (jetson, nvidia, gpu); may be repeated",
    )
    command.add_argument(
        "--models", metavar="N|LIST", default="", help="the first N models of the pack, or their names: a,b,c"
    )
    command.add_argument(
        "--runs", metavar="N", type=int, default=3, help="how often each model is measured (default: 3)"
    )
    command.add_argument(
        "--threads", metavar="N", type=int, help="threads on a CPU (default: as many as the process may use)"
    )
    command.add_argument(
        "--precision", choices=("fp32", "fp16"), default="fp32", help="for weights and activations"
    )
    command.add_argument(
        "--out", metavar="FILE", help="the profile to write (default: a file in the profiles of this user)"
    )
    add_cluster(command, "store the profile in the cluster as well")
    add_node(command)
    shared.add_catalog(command)
    shared.add_output(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    import tempfile

    from fairlead.analyze import analyze
    from fairlead.calibrate import ort_runner
    from fairlead.calibrate.campaign import build_models
    from fairlead.calibrate.profile import calibration_file, default_folder
    from fairlead.calibrate.profile_folder import store
    from fairlead.calibrate.targets import targets

    plan = plan_of(options)
    if in_cluster(options):
        check_cluster(options)
    catalog = shared.catalog_of(options)
    inventory = shared.detect_here(catalog)
    selected, refused = targets(select_accelerators(inventory, options.on, catalog), ort_runner.available())
    if options.out and len(selected) > 1:
        names = ", ".join(f"{each.accelerator.model} by {each.provider}" for each in selected)
        raise SettingsError(
            f"--out {options.out}: more than one accelerator to calibrate: {names}", "add --on"
        )
    done: list[CalibratedAccelerator] = []
    with tempfile.TemporaryDirectory(prefix="fairlead-pack-") as place:
        with progress("making the models"):
            made = build_models(plan, place, analyze)
        for target in selected:
            calibration = _calibrate(plan, target, made, inventory)
            folder = default_folder(os.environ)
            within = None if options.out else folder
            file, held = store(calibration, options.out or calibration_file(folder, calibration), within)
            stored = _store(options, file, calibration)
            done.append(CalibratedAccelerator(file, calibration, stored, held))
    _print(done, refused, options)
    return 0 if done and all(each.calibration.done for each in done) else 1


def plan_of(options: argparse.Namespace) -> "CalibrationPlan":
    """Return the plan of the options."""
    from fairlead.calibrate.campaign import CalibrationPlan
    from fairlead.cores import usable_cores
    from fairlead.zoo import PACK

    names = tuple(PACK)
    if options.models.isdecimal() and 1 <= int(options.models) <= len(names):
        names = names[: int(options.models)]
    elif options.models:
        names = tuple(dict.fromkeys(options.models.split(",")))
    odd = [name for name in names if name not in PACK]
    if odd:
        hint = f"a number up to {len(PACK)}, or some of: {', '.join(PACK)}"
        raise SettingsError(f"--models {options.models}: the pack has no {odd[0]!r}", hint)
    if not 1 <= options.runs <= _MOST_ROUNDS:
        raise SettingsError(f"--runs {options.runs}: not between 1 and {_MOST_ROUNDS}", "3 is usual")
    threads = usable_cores() if options.threads is None else options.threads
    most = os.cpu_count() or 1
    if not 1 <= threads <= most:
        raise SettingsError(f"--threads {threads}: not between 1 and {most}", "leave it out for all CPUs")
    if options.out and os.path.isdir(options.out):
        raise SettingsError(f"--out {options.out}: it is a folder", "name a file in it")
    return CalibrationPlan(names, precision=options.precision, threads=threads, rounds=options.runs)


def select_accelerators(inventory: "Inventory", wanted: list[str], catalog: "Catalog") -> "list[Accelerator]":
    """Return the accelerators that --on names; all of them if it names none."""
    names = [name.strip() for text in wanted for name in text.split(",")]
    selected: dict[str, Accelerator] = {}
    for name in names:
        models = _models(name, catalog)
        matches = [
            acc for acc in inventory.accelerators if name in (acc.id, acc.model) or acc.model in models
        ]
        if not matches:
            here = ", ".join(f"{acc.model or acc.id}" for acc in inventory.accelerators)
            raise SettingsError(f"--on {name}: not on this machine", f"here: {here or 'nothing'}")
        selected |= {acc.id: acc for acc in matches}
    return [acc for acc in inventory.accelerators if not names or acc.id in selected]


def _models(name: str, catalog: "Catalog") -> set[str]:
    """Return the catalog ids of a name; none if it may be the id of an accelerator of this machine."""
    rows = catalog.group(name)
    try:
        return {row.id for row in rows or [catalog.get(name)]}
    except CatalogError:
        return set()


def _calibrate(
    plan: "CalibrationPlan", target: "CalibrationTarget", made: Any, inventory: "Inventory"
) -> "Calibration":
    from fairlead.calibrate.campaign import calibrate
    from fairlead.lab.run.steps import StepPrinter

    cpu = next((acc.name for acc in inventory.accelerators if acc.kind == "cpu"), "")
    printer = StepPrinter(sys.stderr)
    with printer.step(f"{target.accelerator.model} by {target.provider}") as step:
        calibration = calibrate(plan, target, made, inventory.machine.board or cpu, step.report)
    waited = max((trial.measured.waited for trial in calibration.done if trial.measured), default=0.0)
    if waited > _BUSY:
        printer.print_line(f"  The machine is busy: models waited for a CPU up to {waited:.0%} of the time.")
        printer.print_line(
            "  The figures exclude that time, but are less sure, and predictions from them say so;"
        )
        printer.print_line("  calibrate again on an idle machine: a quieter run replaces a noisier one.")
    return calibration


def _store(options: argparse.Namespace, file: str, calibration: "Calibration") -> "StoreCounts | None":
    """Store a calibration in the cluster, if the options name one."""
    if not in_cluster(options):
        return None
    from fairlead.modelprofiles.convert import calibration_profiles

    try:
        return store_profiles(options, calibration_profiles(calibration, node_of(options)))
    except ClusterError as error:
        kept = f"the figures are in {file}; store them later: fairlead profiles import {file}"
        error.hint = f"{error.hint}; {kept}" if error.hint else kept
        raise


def _print(
    done: "list[CalibratedAccelerator]", refused: "list[SkippedAccelerator]", options: argparse.Namespace
) -> None:
    if options.output == "table":
        pages = [
            Page.of(
                table(each.calibration),
                each.line(),
                [f"in the cluster: {each.stored}"] * bool(each.stored),
            )
            for each in done
        ]
        against = [
            Text(f"{each.accelerator.bus}: {each.accelerator.name}: {each.reason}", Tone.WARN)
            for each in refused
        ]
        if pages or against:
            show_page(Page.of(*pages, against), options.color)
        return
    show(
        {
            "calibrations": [each.to_json() for each in done],
            "refused": [{"accelerator": each.accelerator.id, "reason": each.reason} for each in refused],
        },
        options.output,
    )


def table(calibration: "Calibration") -> Page:
    """Return a calibration as a page for people."""
    setup = calibration.setup
    threads = f", {pluralize(setup.threads, 'thread')}" if setup.threads else ""
    head = f"{setup.device}, {setup.runtime} {setup.version}, {setup.precision}{threads}"
    rows = [_row(trial) for trial in calibration.trials]
    columns = ("MODEL", "TIME", "P90", "RUNS", "WAITED", "NOISE", "MEMORY", "POWER")
    return Page.of(head, Table.of(columns, rows))


def _row(trial: "Trial") -> tuple[str | Cell, ...]:
    measured = trial.measured
    if measured is None:
        return (trial.model, Cell(trial.reason, tone=Tone.BAD), *[""] * 6)
    return (
        trial.model,
        f"{measured.seconds * 1e3:.2f} ms",
        f"{measured.p90 * 1e3:.2f} ms",
        str(measured.runs),
        f"{measured.waited:.0%}",
        "-" if measured.noise is None else f"{measured.noise:.0%}",
        format_bytes(measured.peak_bytes),
        "-" if measured.watts is None else f"{measured.watts:.0f} W",
    )
