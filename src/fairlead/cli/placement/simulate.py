"""`fairlead simulate`: run a trace of jobs on machines in virtual time, under one policy or several."""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Any

from fairlead.cli.output.picture import check_writable, draw
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show
from fairlead.cli.output.table import Column, Fit, Table, Tone
from fairlead.cli.output.terminal import Page, Reasons, show_page
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError
from fairlead.units import format_bytes, format_number, pluralize

if TYPE_CHECKING:
    from fairlead.simulate.trace.job import SimulatedFleet, Trace
    from fairlead.simulate.trace.settings import SimulationSettings

_MOST_PACE = 1e9
_MOST_PERCENT = 1e6
_DESCRIPTION = (
    "Run a trace of jobs on machines in virtual time: arrivals, departures, faults, real memory and "
    "interference, with the engine that serves real clusters. Every policy gets the same jobs. The same "
    "seed gives the same answer."
)


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "simulate", help="run a trace of jobs under one policy or several", description=_DESCRIPTION
    )
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--trace",
        metavar="FILE",
        help="jobs: YAML, JSON or CSV, Kubernetes manifests, a snapshot, or the pods of an openb trace",
    )
    source.add_argument(
        "--generate",
        metavar="KIND",
        help="a synthetic cluster and its jobs, of this kind: gpu-bound, cpu-bound, hungry, cpu-uneven, "
        "memory-bound, typed, gangs, departures or mixed (drawn by the seed)",
    )
    command.add_argument("--cluster", metavar="FILE", help="machines, if the trace has none of its own")
    command.add_argument(
        "--policy", metavar="P[,P...]", default="fairlead", help="policies to compare (default: fairlead)"
    )
    command.add_argument(
        "--seed", metavar="S", type=int, default=0, help="the seed of the random numbers (default: 0)"
    )
    _add_rules(command)
    command.add_argument("--plot", metavar="FILE", help="also draw the figures over time, as an SVG picture")
    shared.add_catalog(command)
    shared.add_output(command)
    command.set_defaults(run=run)


def _add_rules(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--interference",
        metavar="MODEL",
        help="how jobs on one accelerator slow each other down: none, time-slicing or mps "
        "(default: what the trace says)",
    )
    command.add_argument(
        "--queue",
        metavar="ORDER",
        help="which waiting job is tried first: fifo, kubernetes, largest, shortest or heap "
        "(default: what the trace says)",
    )
    command.add_argument(
        "--over-provision", metavar="PERCENT", type=float, help="request that much more memory than is used"
    )
    command.add_argument(
        "--pace",
        metavar="TIMES",
        type=float,
        help="let jobs arrive that many times faster, up to 1e9; their durations stay",
    )
    command.add_argument(
        "--duration",
        metavar="TIME",
        help="how long the pods of manifests run: a manifest has no duration (default: for ever)",
    )
    command.add_argument(
        "--mtbf", metavar="TIME", help="let nodes fail at random, on average after this time: 30d is 720h"
    )
    command.add_argument(
        "--mttr", metavar="TIME", default="10m", help="mean time until a failed node is back (default: 10m)"
    )
    command.add_argument(
        "--keep-progress", action="store_true", help="a preempted or killed job resumes where it was"
    )
    command.add_argument(
        "--no-preemption", action="store_true", help="evict no job for one of higher priority"
    )
    command.add_argument("--until", metavar="TIME", help="stop after that much virtual time")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.simulate.report.figures import document

    if options.plot:
        check_writable(options.plot)
    policies, trace, fleet, settings = _read_inputs(options)
    outcomes = []
    for policy in policies:
        with _timed(policy, len(trace.jobs)) as report:
            outcomes.append(_play(policy, (trace, fleet, settings), options.seed, report))
    answer = document(trace, settings, options.seed, outcomes)
    if options.output == "table":
        show_page(table(answer), options.color)
    else:
        show(answer, options.output)
    if options.plot:  # last: a picture that cannot be written must not cost the answer
        from fairlead.simulate.report.plot import svg

        draw(options.plot, svg(answer))
    return 0


def _read_inputs(
    options: argparse.Namespace,
) -> "tuple[list[str], Trace, SimulatedFleet, SimulationSettings]":
    """Return the policies, the trace, the machines and the settings; errors in them are raised here."""
    from fairlead.schedule import policy_named
    from fairlead.simulate.trace.machines import read_fleet
    from fairlead.simulate.trace.read import TraceReader, check_faults
    from fairlead.simulate.trace.settings import SimulationSettings, duration_of, merge_settings
    from fairlead.simulate.trace.synthetic import synthetic_trace

    policies = list(dict.fromkeys(name for name in options.policy.split(",") if name))
    if not policies:
        raise SettingsError("--policy: no policy is named", "write it like --policy fairlead,binpack")
    for name in policies:
        policy_named(name)
    if options.generate and options.over_provision is not None:
        raise SettingsError("--over-provision: generated jobs hold what they request", "name a --trace")
    if options.over_provision is not None and not 0 <= options.over_provision <= _MOST_PERCENT:
        raise SettingsError(
            f"--over-provision {options.over_provision:g}: not a percentage from 0 to {_MOST_PERCENT:g}",
            "50 asks for half as much again",
        )
    catalog = shared.catalog_of(options)
    machines = read_fleet(options.cluster, catalog) if options.cluster else None
    duration = duration_of(options.duration, "--duration") if options.duration else inf
    if options.generate:
        trace = synthetic_trace(options.generate, options.seed)
    else:
        reader = TraceReader(catalog, options.seed, options.over_provision, machines, duration)
        with progress(f"reading {options.trace}"):
            trace = reader.read(options.trace)
    trace, fleet = _apply_options(trace, options), machines or trace.fleet
    if fleet is None:
        raise SettingsError(f"{options.trace} has no machines", "name a file of nodes with --cluster")
    check_faults(trace, fleet)
    settings = merge_settings(SimulationSettings(), trace.settings, f"{trace.name}: settings")
    return policies, trace, fleet, merge_settings(settings, _overrides(options), "the command line")


def _apply_options(trace: "Trace", options: argparse.Namespace) -> "Trace":
    """Return the trace with the changes that the options ask for."""
    from fairlead.simulate.trace.job import RandomFaults, speed_up, with_failures
    from fairlead.simulate.trace.settings import duration_of

    if options.pace is not None:
        if not 0 < options.pace <= _MOST_PACE:
            raise SettingsError(
                f"--pace {options.pace:g}: not above 0 and at most {_MOST_PACE:g}",
                "2 lets jobs arrive twice as fast",
            )
        trace = speed_up(trace, options.pace)
    if options.mtbf is not None:
        mtbf, mttr = duration_of(options.mtbf, "--mtbf"), duration_of(options.mttr, "--mttr")
        trace = with_failures(trace, RandomFaults("node", mtbf, mttr))
    return trace


def _overrides(options: argparse.Namespace) -> dict[str, object]:
    named = {"interference": options.interference, "queue": options.queue, "until": options.until}
    overrides: dict[str, object] = {name: value for name, value in named.items() if value is not None}
    if options.keep_progress:
        overrides["keep_progress"] = True
    if options.no_preemption:
        overrides["preemption"] = False
    return overrides


def _play(
    policy: str,
    what: "tuple[Trace, SimulatedFleet, SimulationSettings]",
    seed: int,
    report: Callable[[int], None],
) -> Any:
    from fairlead.simulate.play.policies import simulated_policy
    from fairlead.simulate.play.simulation import Simulation

    trace, fleet, settings = what
    return Simulation(trace, fleet, simulated_policy(policy, trace.jobs), settings, seed).play(report)


@contextmanager
def _timed(policy: str, jobs: int) -> Iterator[Callable[[int], None]]:
    """Show the progress, and at the end the time it took."""
    import time

    began = time.monotonic()
    with progress(policy) as bar:
        yield lambda done: bar.update(done, jobs, "jobs")
    print(f"{policy}: {pluralize(jobs, 'job')} in {time.monotonic() - began:.1f} s", file=sys.stderr)


def table(answer: Mapping[str, Any]) -> Page:
    """Return the answer as a page for people: a column for each policy."""
    policies = answer["policies"]
    head = (Column("", Fit.WRAP), *(Column(each["policy"]) for each in policies))
    rows = [(name, *(show_one(each) for each in policies)) for name, show_one in _ROWS]
    title = f"{answer['trace']}: {pluralize(answer['jobs'], 'job')}, seed {answer['seed']}"
    reasons = [
        _reasons(f"{each['policy']}: {text}", each[kind])
        for each in policies
        for kind, text in (("refusals", "refused for good"), ("waits", "had to wait at first"))
        if each[kind]
    ]
    return Page.of(title, "", Table.of(head, rows), reasons)


def _reasons(head: str, counts: Mapping[str, int]) -> Reasons:
    items = tuple(f"{count} {reason}" for reason, count in counts.items())
    return Reasons(f"{head}: {', '.join(items)}", f"{head}:", items, Tone.WARN)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for length, unit in ((86400, "d"), (3600, "h")):
        if seconds >= 3 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.1f} s"


def _times(key: str) -> Callable[[Mapping[str, Any]], str]:
    names = ("mean", "p50", "p99", "worst")
    return lambda each: " / ".join(_time(each[key][name]) for name in names)


def _percents(key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda each: f"{each[key]['mean']:.1f} / {each[key]['peak']:.1f} %"


_ROWS: tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...] = (
    ("done", lambda each: f"{each['done']} of {each['arrived']}"),
    ("running, waiting", lambda each: f"{each['running']}, {each['waiting']}"),
    ("refused, given up", lambda each: f"{each['refused']}, {each['failed']}"),
    ("makespan", lambda each: _time(each["makespan_s"])),
    ("wait: mean / p50 / p99 / worst", _times("wait_s")),
    ("completion: mean / p50 / p99 / worst", _times("completion_s")),
    ("allocated: mean / peak", _percents("allocation_percent")),
    ("fragmented: mean / peak", _percents("fragmentation_percent")),
    ("at work: mean / peak", _percents("utilisation_percent")),
    (
        "memory used: mean / peak",
        lambda each: " / ".join(format_bytes(each["memory_used_bytes"][name]) for name in ("mean", "peak")),
    ),
    ("queue: mean / peak", lambda each: f"{each['queue']['mean']:.1f} / {each['queue']['peak']}"),
    ("energy", lambda each: f"{format_number(each['energy_j'] / 3.6e6)} kWh at {each['power_w']:.0f} W"),
    ("out of memory", lambda each: str(each["memory_kills"])),
    ("preemptions, evictions", lambda each: f"{each['preemptions']}, {each['evictions']}"),
    ("faults", lambda each: str(each["faults"])),
)
