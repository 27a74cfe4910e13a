"""`fairlead pipeline profile`: what each stage costs on each machine, and what links carry."""

import argparse
import os
import tempfile
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show
from fairlead.cli.output.table import Cell, Column, Fit, Table, Tone
from fairlead.cli.output.terminal import Page, Text, show_page
from fairlead.cli.pipeline import hosts
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError
from fairlead.units import format_bytes, format_number, parse_duration, pluralize

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairlead.pipeline.profile.facts import PipelineProfile
    from fairlead.pipeline.profile.machine import ReachedMachines
    from fairlead.pipeline.spec import PipelineSpec

_STAGES: Final = (
    *(Column(name, Fit.KEEP) for name in ("STAGE", "NODE", "TIME", "P10", "P90", "MEMORY")),
    Column("BASIS", Fit.PROSE),
)
_EDGES: Final = ("EDGE", "BYTES", "VALUES/FRAME", "ENCODED")
_LINKS: Final = ("LINK", "RATE", "DELAY")
_MOST_FRAMES: Final = 10_000


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    command = verbs.add_parser(
        "profile",
        help="measure the stages of a pipeline on this machine and its hosts",
        description="Measure each stage of a pipeline on this machine and on every host of its file, with "
        "the frames that the stage would get, and the links between the machines. Sinks are not called. "
        "`fairlead pipeline plan FILE --profile` plans from the result.",
    )
    command.add_argument("file", metavar="FILE", help="the pipeline, in YAML")
    add_measuring(command)
    command.add_argument("--out", metavar="PROFILE", help="write the profile to this file, in JSON")
    hosts.add_tls(command)
    shared.add_output(command)
    command.set_defaults(run=_profile)


def add_measuring(command: argparse.ArgumentParser) -> None:
    """Add the options that say what is measured, and for how long."""
    command.add_argument(
        "--frames", metavar="N", type=int, default=30, help="frames that each stage is measured with (30)"
    )
    command.add_argument(
        "--seconds",
        metavar="TIME",
        default="10s",
        help="how long a stage is measured on each machine at most (10s)",
    )
    command.add_argument(
        "--class",
        dest="classes",
        metavar="DEVICE",
        action="append",
        default=[],
        help="a device of the catalog that is not there: ONNX stages are predicted for it; may be repeated",
    )
    shared.add_catalog(command)


def measure(spec: "PipelineSpec", options: argparse.Namespace) -> "PipelineProfile":
    """Return the profile of a checked pipeline, with predictions for machines that are not there."""
    from fairlead.cli.pipeline.predicted import check_classes, with_predictions
    from fairlead.pipeline.profile.profiler import ProfileSettings, profile_pipeline

    if not 1 <= options.frames <= _MOST_FRAMES:
        raise SettingsError(f"--frames {options.frames}: not a number from 1 to {_MOST_FRAMES}")
    seconds = read_time("--seconds", options.seconds)
    if not 0 < seconds <= 3600:
        raise SettingsError(f"--seconds {options.seconds}: not a time up to an hour", "write for example 10s")
    check_classes(options)
    settings = ProfileSettings(options.frames, seconds)
    spec = _ask_hosts(spec, options)
    with progress(f"profiling {spec.name}") as bar, tempfile.TemporaryDirectory() as folder:
        reached = _reach(spec, options, seconds, bar.set_status)
        profile = profile_pipeline(spec, reached, folder, settings, bar.set_status)
    return with_predictions(profile, spec, options)


def _ask_hosts(spec: "PipelineSpec", options: argparse.Namespace) -> "PipelineSpec":
    """Return the pipeline with what hosts declare of the stages that its file puts there; PipelineError."""
    if all(stage.on == "local" for stage in spec.stages):
        return spec
    answers = hosts.ask(spec, options)
    hosts.require_none(answers.problems)
    return answers.spec


def _reach(
    spec: "PipelineSpec", options: argparse.Namespace, seconds: float, on_step: "Callable[[str], None]"
) -> "ReachedMachines":
    """Return the machines to measure on; without hosts, hpack is not needed."""
    from fairlead.pipeline.profile.machine import ProfiledLocal, ReachedMachines
    from fairlead.pipeline.spec import LOCAL

    if not any(host.address for host in spec.hosts):
        return ReachedMachines({LOCAL: ProfiledLocal(spec.folder)})
    from fairlead.pipeline.profile.reach import reach_hosts

    hosts.require_private_hosts(spec, options)
    return reach_hosts(spec, hosts.tls_files(options), seconds, on_step)


def read_time(option: str, text: str) -> float:
    """Return the seconds of an option; a bare number is refused: it could mean milliseconds."""
    try:
        if text.strip().replace(".", "", 1).isdigit():
            raise ValueError("a time needs a unit")
        return parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"{option} {text}: {error}", "write for example 100ms or 10s") from None


def write_profile(profile: "PipelineProfile", path: str) -> None:
    """Write the file of a profile."""
    from fairlead.outfile import atomic_write
    from fairlead.pipeline.profile.facts import PIPELINE_PROFILES

    try:
        with atomic_write(path, text=True) as file:
            file.write(PIPELINE_PROFILES.encode(profile) + "\n")
    except OSError as error:
        raise SettingsError(f"--out {path}: {error.strerror}", "name a file that can be written") from None


def _profile(options: argparse.Namespace) -> int:
    from fairlead.pipeline.check import require_sound
    from fairlead.pipeline.profile.facts import to_document
    from fairlead.pipeline.yaml_file import read_pipeline

    profile = measure(require_sound(read_pipeline(options.file)), options)
    if options.out:
        write_profile(profile, options.out)
    if options.output == "table":
        show_page(_page(profile, options.out), options.color)
    else:
        show({"version": 1, **to_document(profile)}, options.output)
    return 0


def _page(profile: "PipelineProfile", out: str | None) -> Page:
    from fairlead.pipeline.plan.explain import milliseconds
    from fairlead.pipeline.profile.problem import unknowns

    edges = [
        (f"{edge.source}->{edge.target}", format_number(edge.bytes), f"{edge.rate:.2f}", edge.encode or "-")
        for edge in profile.edges
    ]
    links = [
        (
            f"{link.source}->{link.target}",
            f"{format_bytes(round(link.bytes_per_s))}/s",
            milliseconds(link.delay_s),
        )
        for link in profile.links
    ]
    notes = [Text(f"note: {line}", Tone.WARN) for line in unknowns(profile)]
    machines = pluralize(len(profile.machines), "machine")
    written = f"; written to {os.path.basename(out)}" if out else ""
    return Page.of(
        Table.of(_STAGES, [*_stage_rows(profile)]),
        "",
        Table.of(_EDGES, edges),
        *(("", Table.of(_LINKS, links)) if links else ()),
        "",
        notes,
        f"{profile.pipeline}: {pluralize(len(profile.stages), 'stage')} on {machines}{written}",
    )


def _stage_rows(profile: "PipelineProfile") -> "list[tuple[str | Cell, ...]]":
    from fairlead.pipeline.plan.explain import milliseconds

    rows: list[tuple[str | Cell, ...]] = []
    for stage in profile.stages:
        for node, cost in stage.costs.items():
            rows.append(
                (
                    stage.name,
                    node,
                    milliseconds(cost.seconds),
                    "-" if cost.p10 is None else milliseconds(cost.p10),
                    milliseconds(cost.p90),
                    format_bytes(cost.memory_bytes),
                    basis_text(cost.basis, cost.frames, cost.confidence),
                )
            )
    return rows


def basis_text(basis: str, frames: int, confidence: str) -> str:
    """Return where a time comes from, for people."""
    return f"{basis}, {pluralize(frames, 'frame')}" if frames else f"{basis}, {confidence} confidence"
