"""`fairlead reproduce gpu-sharing`: a published experiment in the simulator, beside its figures."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.progress import progress
from fairlead.cli.output.table import Column, Table
from fairlead.cli.output.terminal import Page
from fairlead.cli.reproduce.outcome import ExperimentOutcome, finish
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError

if TYPE_CHECKING:
    from fairlead.reproduce.gpu_sharing import Experiment

_MOST_LEVELS: Final = 101
_DESCRIPTION: Final = (
    "Play thirty inference engines on one GPU in virtual time, under stock Kubernetes, Alibaba's extender, "
    "CBP+PP and fairlead-safe, beside the published figures (Ferikoglou et al., PARMA-DITAM 2021)."
)
_COLUMNS: Final = (
    ("pending s", "mean_pending_s"),
    ("worst job s", "worst_job_s"),
    ("p99 s", "p99_job_s"),
    ("makespan s", "makespan_s"),
    ("memory MiB", "memory_mean_mib"),
    ("most MiB", "memory_max_mib"),
    ("util %", "utilisation_percent"),
    ("power W", "power_w"),
    ("restarts", "restarts"),
)


def add(verbs: Any) -> None:
    """Add the experiment to the command line."""
    _add_sharing(
        verbs.add_parser("gpu-sharing", help="inference engines that share one GPU", description=_DESCRIPTION)
    )


def _add_sharing(sharing: argparse.ArgumentParser) -> None:
    sharing.add_argument(
        "--workload",
        choices=("homogeneous", "mlperf-mix"),
        default="homogeneous",
        help="30 ssd-mobilenet, or 25 engines of six MLPerf models (default: homogeneous)",
    )
    sharing.add_argument(
        "--levels",
        metavar="PERCENT[,...]",
        default="0,50,100,150,200,250",
        help="how much more memory engines request than they use, each 0 to 1000 (default: 0,50,...,250)",
    )
    sharing.add_argument(
        "--arrival-seed",
        metavar="N",
        type=int,
        default=2020,
        help="the seed of the arrivals; 2020 are those of the publication (default: 2020)",
    )
    sharing.add_argument(
        "--without-profile",
        action="store_true",
        help="fairlead-safe knows no sizes beforehand, and learns them",
    )
    sharing.add_argument(
        "--frontier",
        action="store_true",
        help="instead of the figures: restarts against pending of fairlead-safe, by bound and stated size",
    )
    sharing.add_argument("--plot", metavar="FILE", help="also draw the figures by level, as an SVG picture")
    shared.add_output(sharing)
    sharing.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    return finish(options, perform)


def perform(options: argparse.Namespace) -> ExperimentOutcome:
    """Play the experiment."""
    from fairlead.reproduce.gpu_sharing import Experiment

    levels = _levels(options.levels)
    if options.plot and options.frontier:
        raise SettingsError("--plot draws the figures, not the frontier", "leave out one of the two options")
    experiment = Experiment(options.workload, options.arrival_seed, not options.without_profile)
    answer = _play(experiment, levels, frontier=options.frontier)
    if options.frontier:
        return ExperimentOutcome(answer, _frontier_page(answer))
    return ExperimentOutcome(answer, _page(answer, experiment), lambda: _picture(answer, experiment))


def _picture(answer: Mapping[str, Any], experiment: "Experiment") -> str:
    from fairlead.reproduce.plot import svg

    return svg(answer, experiment.workload, experiment.arrival_seed)


def _levels(text: str) -> tuple[float, ...]:
    from fairlead.reproduce.gpu_sharing import MOST_LEVEL

    hint = f"write percentages from 0 to {MOST_LEVEL}, like --levels 0,50,100"
    try:
        levels = tuple(dict.fromkeys(float(word) for word in text.split(",")))
    except ValueError:
        raise SettingsError(f"--levels {text}: not a list of numbers", hint) from None
    if not all(0 <= level <= MOST_LEVEL for level in levels) or len(levels) > _MOST_LEVELS:
        raise SettingsError(f"--levels {text}: a level is out of range, or there are too many", hint)
    return tuple(int(level) if level == int(level) else level for level in levels)


def _play(experiment: "Experiment", levels: tuple[float, ...], *, frontier: bool) -> dict[str, Any]:
    from fairlead.reproduce.frontier import frontier as play_frontier
    from fairlead.reproduce.gpu_sharing import play_levels
    from fairlead.reproduce.published import SCHEDULERS

    with progress("gpu-sharing") as bar:
        if frontier:
            return play_frontier(experiment, levels, lambda done: bar.update(done, len(levels), "levels"))
        runs = len(levels) * len(SCHEDULERS)
        return play_levels(experiment, levels, lambda done: bar.update(done, runs, "runs"))


def _page(answer: Mapping[str, Any], experiment: "Experiment") -> Page:
    """Return the figures for people; published ones in parentheses."""
    from fairlead.reproduce.engines import HOMOGENEOUS
    from fairlead.reproduce.published import PUBLISHED

    head = (Column("level"), Column("scheduler"), *(Column(title) for title, _ in _COLUMNS))
    rows = []
    for level in answer["levels"]:
        percent = level["overprovision_percent"]
        published = PUBLISHED.get(percent, {}) if experiment.workload == HOMOGENEOUS else {}
        for name, figures in level["schedulers"].items():
            cells = (_cell(figures[key], getattr(published.get(name), key, None)) for _, key in _COLUMNS)
            rows.append((f"{percent:g} %", name, *cells))
    knows = "sizes by profile" if experiment.profiles else "sizes learned"
    title = f"{experiment.workload}, arrival seed {experiment.arrival_seed}, fairlead-safe: {knows}"
    note = (
        "In parentheses: published, one run each (arrival seed 2020)."
        if experiment.workload == HOMOGENEOUS
        else ""
    )
    return Page.of(title, "", Table.of(head, rows), *(["", note] if note else []))


def _cell(value: float | None, published: float | None) -> str:
    text = "-" if value is None else f"{value:.0f}" if abs(value) >= 100 else f"{value:g}"
    return text if published is None else f"{text} ({published:g})"


def _frontier_page(answer: Mapping[str, Any]) -> Page:
    names = ("level", "scheduler", "knows", "stated least", "bound", "restarts", "pending s", "worst job s")
    rows = [
        (
            f"{point['overprovision_percent']:g} %",
            point["scheduler"],
            point["knows"],
            "-" if point["stated_least"] is None else f"{100 * point['stated_least']:.0f} %",
            "-" if point["bound"] is None else f"{point['bound']:g}",
            str(point["restarts"]),
            _cell(point["mean_pending_s"], None),
            _cell(point["worst_job_s"], None),
        )
        for point in answer["frontier"]
    ]
    return Page.of("restarts against pending", "", Table.of(tuple(Column(name) for name in names), rows))
