"""`fairlead reproduce all`: every published experiment in one HTML page, with machine and commands."""

import argparse
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from fairlead.cli.output import html
from fairlead.cli.output.picture import check_writable, draw
from fairlead.cli.output.show import show, to_json
from fairlead.cli.output.table import Table, Tone
from fairlead.cli.output.terminal import Page, Text, show_error, show_page
from fairlead.cli.reproduce import augment, devices, gpu_sharing, pipeline
from fairlead.cli.reproduce.outcome import ExperimentOutcome
from fairlead.cli.shell import options as shared
from fairlead.errors import FairleadError, SettingsError

_PAGE: Final = "reproduce.html"
_TITLE: Final = "Published experiments, beside what this machine gives"


@dataclass(frozen=True, slots=True)
class PublishedExperiment:
    """One part of the page."""

    name: str
    title: str
    source: str
    module: ModuleType
    quick: tuple[str, ...] = ()
    """Options that make it short."""
    full: tuple[str, ...] = ()

    def words(self, *, quick: bool) -> list[str]:
        """Return the command line of it."""
        return ["reproduce", self.name, *(self.quick if quick else self.full)]


EXPERIMENTS: Final = (
    PublishedExperiment(
        "gpu-sharing",
        "Inference engines that share one GPU",
        "A. Ferikoglou et al., PARMA-DITAM 2021, and the authors' result files. Simulated.",
        gpu_sharing,
        quick=("--levels", "0,100,250"),
    ),
    PublishedExperiment(
        "pipeline",
        "Convolution, ReLU and max-pool on edge and server",
        "R. V. Raheja, UNC Charlotte 2020. Measured on this machine.",
        pipeline,
        quick=("--quick", "--kernel", "slow"),
    ),
    PublishedExperiment(
        "augment",
        "Images and bulk loads on a device and its server",
        "K-RAF: edge resource augmentation on Kubernetes. Measured on this machine.",
        augment,
        quick=("--quick",),
    ),
    PublishedExperiment(
        "devices",
        "Which small accelerator is first for which network",
        "Reza et al. 2021 (DOI 10.1007/978-3-030-76063-2_23), cited by the accelerator monitor. Predicted.",
        devices,
    ),
)
"""In the order of the page."""


@dataclass(frozen=True, slots=True)
class ReportPart:
    """An experiment that was tried."""

    experiment: PublishedExperiment
    command: str
    seconds: float
    outcome: ExperimentOutcome | None
    problem: str = ""
    """Why there is no outcome."""

    @property
    def missing(self) -> list[str]:
        """What could not be done here."""
        return [self.problem] if self.outcome is None else self.outcome.missing


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    names = ", ".join(each.name for each in EXPERIMENTS)
    command = verbs.add_parser(
        "all",
        help="every experiment, in one HTML page",
        description="Play and measure every published experiment, and write one HTML page that needs nothing "
        "else: figures beside the published ones, plots, the machine and the commands. A part that cannot "
        "run here is left out, and the page says why.",
    )
    command.add_argument("--out", metavar="FILE", default=_PAGE, help=f"the page to write (default: {_PAGE})")
    command.add_argument("--quick", action="store_true", help="fewer levels, sizes and rounds: some minutes")
    command.add_argument(
        "--only", metavar="NAME[,...]", default="", help=f"some experiments alone: {names} (default: all)"
    )
    shared.add_output(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the experiments and write the page; exit code 1: a part of it cannot be done here."""
    from fairlead.reproduce.machine import machine, machine_words

    chosen = _chosen(options.only)
    check_writable(options.out, "--out")
    facts = machine(_gpus())
    parts = [_try(experiment, quick=options.quick) for experiment in chosen]
    draw(options.out, html.document(_TITLE, document(parts, machine_words(facts), options)), "--out")
    if options.output == "table":
        show_page(_page(parts, options.out), options.color)
    else:
        show({"page": options.out, "machine": facts, "parts": [_row(part) for part in parts]}, options.output)
    return 1 if any(part.missing for part in parts) else 0


def _chosen(text: str) -> list[PublishedExperiment]:
    known = {each.name: each for each in EXPERIMENTS}
    names = list(dict.fromkeys(word.strip() for word in text.split(","))) if text.strip() else list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SettingsError(f"--only {text}: no experiment {unknown[0]!r}", f"known: {', '.join(known)}")
    return [each for each in EXPERIMENTS if each.name in names]


def _try(experiment: PublishedExperiment, *, quick: bool) -> ReportPart:
    """Run an experiment; what it lacks here costs no other one."""
    from fairlead.cli.main import build_parser

    words = experiment.words(quick=quick)
    command = shlex.join(["fairlead", *words])
    options = build_parser("reproduce").parse_args(words)
    began, outcome, problem = time.monotonic(), None, ""
    try:
        outcome = experiment.module.perform(options)
    except FairleadError as error:
        problem = f"{error}" + (f" ({error.hint})" if error.hint else "")
    except ModuleNotFoundError as error:
        problem = f"{error.name} is not installed"
    if problem:
        show_error(f"fairlead: {experiment.name}: {problem}")
    return ReportPart(experiment, command, time.monotonic() - began, outcome, problem)


def _gpus() -> list[str]:
    from fairlead.host import Host

    return [gpu.name for gpu in shared.gpus_of(Host("/"))]


def _row(part: ReportPart) -> dict[str, Any]:
    return {
        "name": part.experiment.name,
        "command": part.command,
        "seconds": round(part.seconds, 1),
        "missing": part.missing,
        "answer": part.outcome.answer if part.outcome else None,
    }


def _page(parts: Sequence[ReportPart], path: str) -> Page:
    rows = [
        (part.experiment.name, f"{part.seconds:.0f} s", "done" if part.outcome else "missing", part.command)
        for part in parts
    ]
    missing = [
        Text(f"Missing: {part.experiment.name}: {why}", Tone.WARN) for part in parts for why in part.missing
    ]
    return Page.of(
        Table.of(("EXPERIMENT", "TOOK", "STATE", "COMMAND"), rows), "", missing, f"Written: {path}"
    )


def document(parts: Sequence[ReportPart], machine: str, options: argparse.Namespace) -> Iterator[str]:
    """Yield the HTML of the page."""
    yield html.heading(_TITLE, 1)
    yield html.paragraph(f"Machine: {machine}.")
    yield html.paragraph(f"Written at {time.strftime('%Y-%m-%d %H:%M %Z')} by:")
    words = ["fairlead", "reproduce", "all", *(["--quick"] if options.quick else [])]
    yield html.command_line(shlex.join([*words, *(["--only", options.only] if options.only else [])]))
    for part in parts:
        yield from section(part)


def section(part: ReportPart) -> Iterator[str]:
    """Yield the HTML of an experiment."""
    yield html.heading(part.experiment.title, anchor=part.experiment.name)
    yield html.paragraph(part.experiment.source)
    yield html.command_line(part.command)
    if part.outcome is None:
        yield html.paragraph(f"Missing: {part.problem}", Tone.WARN)
        return
    yield from html.page_html(part.outcome.page)
    if part.outcome.picture:
        yield html.picture(part.outcome.picture())
    yield html.paragraph(f"Took {part.seconds:.0f} s.")
    yield html.folded("The figures as JSON", to_json(part.outcome.answer))
