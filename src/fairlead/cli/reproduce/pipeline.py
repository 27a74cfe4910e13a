"""`fairlead reproduce pipeline`: a published application on edge and server, measured here."""

import argparse
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.progress import progress
from fairlead.cli.output.table import Table
from fairlead.cli.output.terminal import Page, Text, show_error
from fairlead.cli.reproduce.outcome import ExperimentOutcome, finish
from fairlead.cli.shell import options as shared
from fairlead.errors import EmulationError, LabError, SettingsError
from fairlead.units import format_number, parse_bitrate, parse_duration, pluralize

if TYPE_CHECKING:
    from fairlead.labpipeline.images import PipelineImages
    from fairlead.reproduce.thesis.application import ThesisWorkload
    from fairlead.reproduce.thesis.experiment import ThesisExperiment

_SIZES: Final = "128x128,256x256,512x512,1280x720"
_QUICK_SIZES: Final = "256x256,1280x720"
_SIZE: Final = re.compile(r"([0-9]{1,4})x([0-9]{1,4})")
_LEAST_SIDE, _MOST_SIDE = 8, 4096
_KERNELS: Final = {"slow": ("slow",), "fast": ("fast",), "both": ("slow", "fast")}
_DESCRIPTION: Final = (
    "Measure colour to grey, convolution, ReLU and max-pool in C with the pipeline runtime of fairlead: as "
    "one process and as several, beside copies of the whole program and threads; then in five cuts between "
    "an edge and a server, which are emulated with network namespaces. Published figures (R. V. Raheja, UNC "
    "Charlotte 2020) are beside them. Needs a C compiler; the cuts need root. Takes some minutes."
)
_ROWS: Final = ("KERNEL", "SIZE", "ARRANGEMENT", "FRAMES/S", "GAIN", "LIMIT", "LATENCY", "CCR")
_CUTS: Final = ("KERNEL", "SIZE", "CUT", "BYTES", "FRAMES/S", "LATENCY", "CCR")
_PODS: Final = ("PODS", "PODS LATENCY", "PODS CCR")
_PUBLISHED: Final = ("PUBLISHED", "CORES", "ONE PROCESS", "FOUR", "GAIN", "HERE")


def add(verbs: Any) -> None:
    """Add the experiment to the command line."""
    command = verbs.add_parser(
        "pipeline",
        help="a pipeline of convolution, ReLU and max-pool on edge and server",
        description=_DESCRIPTION,
    )
    command.add_argument("--quick", action="store_true", help="two sizes, one round, short runs: two minutes")
    command.add_argument(
        "--sizes", metavar="WxH[,...]", help=f"sizes of images (default: {_SIZES}); the cuts have the last"
    )
    command.add_argument(
        "--kernel",
        choices=tuple(_KERNELS),
        default="both",
        help="without optimisation, with it, or both (default)",
    )
    _add_link(command)
    command.add_argument(
        "--lab",
        action="store_true",
        help="also run the cuts as pods of a lab with two real nodes, which is started and ended; needs what "
        "`fairlead lab up --profile node` needs",
    )
    command.add_argument(
        "--images",
        metavar="DIR",
        help="of --lab: the folder with the archives of the operator's and the pipelines' images "
        "(`fairlead docs image` says how to make them; default: build)",
    )
    command.add_argument("--rounds", metavar="N", type=int, default=3, help="interleaved rounds (default: 3)")
    command.add_argument("--plot", metavar="FILE", help="also draw the figures by size, as an SVG picture")
    shared.add_output(command)
    command.set_defaults(run=run)


def _add_link(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--rate", metavar="RATE", default="100Mb/s", help="of the emulated link, each way (default: 100Mb/s)"
    )
    command.add_argument(
        "--delay", metavar="TIME", default="0ms", help="of the link, each way (default: none)"
    )
    command.add_argument(
        "--loss",
        metavar="PERCENT",
        type=float,
        default=0.0,
        help="of the link, emulated as pauses (default: none)",
    )
    command.add_argument(
        "--edge-cpu",
        metavar="PART",
        type=float,
        default=0.25,
        help="the edge's part of one CPU (default: 0.25)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the experiment; exit code 1: a part of it cannot be done here."""
    return finish(options, perform)


def perform(options: argparse.Namespace) -> ExperimentOutcome:
    """Measure the experiment."""
    import tempfile
    from dataclasses import replace
    from pathlib import Path

    from fairlead.reproduce.emulation.namespaces import obstacle
    from fairlead.reproduce.thesis.experiment import measure
    from fairlead.reproduce.thesis.plot import svg

    experiment, images = read_experiment(options), read_images(options)
    missing = obstacle()
    if missing:
        show_error(f"fairlead: no edge and server can be emulated here: {missing}")
        experiment = replace(experiment, emulation=None)
    no_lab = _lab_obstacle(missing) if images else ""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the processes and groups of a run end with it
    with tempfile.TemporaryDirectory() as folder, progress("pipeline") as bar:
        answer = measure(experiment, Path(folder), bar.set_status)
        if images:
            answer, no_lab = _with_pods(answer, experiment, images, no_lab, bar.set_status)
    parts = {"the cuts between edge and server": missing, "the cuts as pods": no_lab}
    answer["missing"] = [f"{part}: {why}" for part, why in parts.items() if why]
    return ExperimentOutcome(
        answer, Page.of(*page(answer)), lambda: svg(answer), 1 if answer["missing"] else 0
    )


def read_images(options: argparse.Namespace) -> "PipelineImages | None":
    """Return the images for a lab; None: no lab is asked for. SettingsError, LabError."""
    if not options.lab:
        if options.images:
            raise SettingsError("--images is of --lab", "add --lab")
        return None
    from pathlib import Path

    from fairlead.labpipeline.images import DEFAULT_FOLDER, find_images

    return find_images(Path(options.images or DEFAULT_FOLDER))


def _with_pods(
    answer: dict[str, Any],
    experiment: "ThesisExperiment",
    images: "PipelineImages",
    no_lab: str,
    on_step: Callable[[str], None],
) -> tuple[dict[str, Any], str]:
    """Return the answer with the cuts as pods, and why there are none; what was measured is not lost."""
    from fairlead.labpipeline.cuts import measure_pods, with_pods

    if no_lab:
        return with_pods(answer, None), no_lab
    try:
        return with_pods(answer, measure_pods(experiment, images, on_step)), ""
    except (EmulationError, LabError) as error:
        return with_pods(answer, None), f"{error}" + (f" ({error.hint})" if error.hint else "")


def _lab_obstacle(missing: str) -> str:
    """Return why there can be no lab here, and else build what it needs."""
    from fairlead.lab.run.steps import StepPrinter
    from fairlead.labpipeline.site import obstacle, prepare

    no_lab = missing or obstacle()
    if not no_lab:
        prepare(StepPrinter(sys.stderr))
    elif not missing:
        show_error(f"fairlead: no lab can run here: {no_lab}")
    return no_lab


def read_experiment(options: argparse.Namespace) -> "ThesisExperiment":
    """Return what the options ask for; SettingsError."""
    from fairlead.reproduce.thesis.experiment import Emulation, ThesisExperiment

    if not 1 <= options.rounds <= 99:
        raise SettingsError(f"--rounds {options.rounds}: not a number from 1 to 99")
    if not 0.05 <= options.edge_cpu <= 1:
        raise SettingsError(
            f"--edge-cpu {options.edge_cpu:g}: not a part from 0.05 to 1", "write for example 0.25"
        )
    if not 0 <= options.loss <= 50:
        raise SettingsError(f"--loss {options.loss:g}: not a percentage from 0 to 50")
    kinds = _KERNELS[options.kernel]
    sizes = _sizes(options.sizes or (_QUICK_SIZES if options.quick else _SIZES))
    workloads = [_workload(kernel, size) for kernel in kinds for size in sizes]
    emulation = Emulation(_rate(options.rate), _delay(options.delay), options.loss / 100, options.edge_cpu)
    return ThesisExperiment(
        tuple(workloads),
        (1, 2, 4) if options.quick else (1, 2, 3, 4),
        1 if options.quick else options.rounds,
        1.5 if options.quick else 4.0,
        tuple(_workload(kernel, sizes[-1]) for kernel in kinds[: 1 if options.quick else 2]),
        emulation,
    )


def _workload(kernel: str, size: tuple[int, int]) -> "ThesisWorkload":
    from fairlead.reproduce.thesis.application import ThesisWorkload

    return ThesisWorkload(kernel, size[1], size[0])


def _sizes(text: str) -> list[tuple[int, int]]:
    sizes = []
    for word in text.split(","):
        match = _SIZE.fullmatch(word.strip())
        size = (int(match[1]), int(match[2])) if match else (0, 0)
        if not all(_LEAST_SIDE <= side <= _MOST_SIDE for side in size):
            hint = f"write width and height from {_LEAST_SIDE} to {_MOST_SIDE}, like 256x256,1280x720"
            raise SettingsError(f"--sizes {text}: {word.strip()!r} is no size", hint)
        sizes.append(size)
    return sizes


def _rate(text: str) -> float:
    try:
        rate = float(parse_bitrate(text))
    except ValueError as error:
        raise SettingsError(f"--rate {text}: {error}", "write for example 100Mb/s") from None
    if not 1e6 <= rate <= 1e11:
        raise SettingsError(f"--rate {text}: not from 1Mb/s to 100Gb/s")
    return rate


def _delay(text: str) -> float:
    try:
        delay = parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"--delay {text}: {error}", "write for example 5ms") from None
    if not 0 <= delay <= 5:
        raise SettingsError(f"--delay {text}: not from 0 to 5s")
    return delay


def page(answer: Mapping[str, Any]) -> Iterator[Table | str | Text]:
    """Yield the figures for people."""
    from fairlead.reproduce.thesis.published import CLAIMS

    yield Table.of(_PUBLISHED, [_published_row(each, answer) for each in answer["published"]])
    yield ""
    rows = [
        (
            *_first(row),
            row["arrangement"],
            format_number(row["frames_per_s"]),
            f"{row['gain']:.2f}x",
            f"{row['limit']:.2f}x",
            *_times(row),
        )
        for row in answer["one_machine"]
    ]
    yield Table.of(_ROWS, rows)
    rounds = pluralize(answer["rounds"], "round")
    yield f"On {pluralize(answer['cores'], 'core')}, medians of {rounds}. Limit: min(cores, sum/max)."
    if answer["emulated"]:
        yield ""
        lab = answer.get("lab")
        head = (*_CUTS, *_PODS) if lab else _CUTS
        yield Table.of(head, [(*_cut_row(row), *(_pods(row) if lab else ())) for row in answer["cuts"]])
        yield _emulated(answer["emulated"])
        if lab:
            yield _in_lab(lab)
    yield ""
    yield from (f"Thesis: {line}" for line in CLAIMS)
    yield from (f"Missing: {line}." for line in answer["missing"])


def _published_row(each: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[str, ...]:
    from fairlead.reproduce.thesis.published import SIZE

    here = [
        row["gain"]
        for row in answer["one_machine"]
        if (row["kernel"], row["height"], row["width"]) == ("slow", *SIZE)
        and row["arrangement"] == "4 processes"
    ]
    return (
        each["machine"],
        str(each["cores"]),
        f"{each['one_process']:g}/s",
        f"{each['four_processes']:g}/s",
        f"{each['gain']:.2f}x",
        f"{here[0]:.2f}x" if here else "-",
    )


def _first(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["kernel"], f"{row['width']}x{row['height']}"


def _times(row: Mapping[str, Any]) -> tuple[str, str]:
    return f"{format_number(1000 * row['latency_s'])} ms", "-" if row["ccr"] is None else f"{row['ccr']:.2f}"


def _cut_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    moved = format_number(row["bytes"])
    return (*_first(row), row["cut"], moved, format_number(row["frames_per_s"]), *_times(row))


def _emulated(how: Mapping[str, Any]) -> str:
    extra = f", delay {1000 * how['delay_s']:g} ms each way" if how["delay_s"] else ""
    extra += f", {100 * how['loss']:g} % of reads held as lost" if how["loss"] else ""
    return (
        f"Emulated on one machine: two network namespaces, a link of {how['bits_per_s'] / 1e6:g} Mbit/s "
        f"each way (tbf){extra}, the edge at {how['edge_cpu']:g} CPU ({how['quota']}). "
        "E is the edge, S the server."
    )


def _pods(row: Mapping[str, Any]) -> tuple[str, ...]:
    pods = row["pods"]
    return (format_number(pods["frames_per_s"]), *_times(pods)) if pods else ("-",) * len(_PODS)


def _in_lab(how: Mapping[str, Any]) -> str:
    return (
        f"Pods: deployed in a lab on this machine, with two real nodes, {how['edge']} (edge) and "
        f"{how['server']} (server), the same link between them, and the pods of the edge at "
        f"{how['edge_cpu']:g} CPU ({how['quota']})."
    )
