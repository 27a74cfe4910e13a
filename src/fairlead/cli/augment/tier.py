"""`fairlead augment tier`: which files belong on the fast volume, found by replaying their trace."""

import argparse
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.show import show
from fairlead.cli.output.table import Cell, Table, Tone
from fairlead.cli.output.terminal import Page, Text, show_page
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError
from fairlead.units import (
    Bytes,
    BytesPerSecond,
    fault,
    format_bytes,
    format_number,
    parse_bandwidth,
    parse_bytes,
    parse_duration,
    pluralize,
)

if TYPE_CHECKING:
    from fairlead.tiering.choice import TierChoice
    from fairlead.tiering.replay import TierResult
    from fairlead.tiering.speeds import TierSpeeds

_DIGITS: Final = 9
"""Digits after the point in documents."""
_HEAD: Final = ("POLICY", "HITS", "BYTE HITS", "MOVES", "MOVED", "NET TIME")


def add(verbs: Any) -> None:
    """Add the verb to `fairlead augment`."""
    command = verbs.add_parser(
        "tier",
        help="find the policy that moves files between a fast and a slow volume",
        description="Replay a trace of accesses to files through every policy of two volumes, a fast and a "
        "slow one, and choose the policy that saves the most time: what hits save, less what moves take.",
    )
    command.add_argument(
        "--trace",
        metavar="FILE",
        help="a CSV file with the columns time, key, bytes (of the whole file) and op (read or write), plain "
        "or gzip; or a block trace with version, time, op, size and lbn; - is the standard input",
    )
    command.add_argument("--capacity", metavar="SIZE", help="the capacity of the fast volume, such as 10Gi")
    command.add_argument(
        "--status",
        metavar="DIR",
        help="show what fairlead serve tier does with this fast folder, instead of replaying a trace",
    )
    command.add_argument(
        "--explain", action="store_true", help="show the frontier too: the most hits for each number of moves"
    )
    add_speeds(command)
    shared.add_output(command)
    command.set_defaults(run=run)


def add_speeds(command: argparse.ArgumentParser) -> None:
    """Add the options for the speeds of both volumes."""
    command.add_argument(
        "--ssd", metavar="RATE", default="500MB/s", help="the fast volume's rate (default: %(default)s)"
    )
    command.add_argument(
        "--hdd", metavar="RATE", default="150MB/s", help="the slow volume's rate (default: %(default)s)"
    )
    command.add_argument(
        "--seek", metavar="TIME", default="8ms", help="the slow volume's delay (default: %(default)s)"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.status is not None:
        from fairlead.cli.augment.tier_status import show_status

        return show_status(options)
    if options.trace is None or options.capacity is None:
        missing = "--trace" if options.trace is None else "--capacity"
        raise SettingsError(f"{missing} is not set", "give --trace FILE and --capacity SIZE, or --status DIR")
    from fairlead.tiering.choice import choose
    from fairlead.tiering.replay import replay_all
    from fairlead.tiering.trace import open_trace

    capacity, speeds = capacity_of(options.capacity), speeds_of(options)
    with open_trace(options.trace) as trace:
        results = replay_all(trace.chunks(), capacity, speeds, resizes=not trace.is_blocks)
    choice = choose(results)
    if options.output == "table":
        show_page(page(results, choice, capacity, explain=options.explain), options.color)
    else:
        show(to_document(results, choice, explain=options.explain), options.output)
    return 0


def capacity_of(text: str) -> Bytes:
    """Return the bytes of the option `--capacity`."""
    try:
        capacity = parse_bytes(text)
    except ValueError as error:
        raise SettingsError(f"--capacity {text}: {fault(error)}", "write it like 10Gi") from None
    if not capacity:
        raise SettingsError(
            f"--capacity {text}: no file fits on a fast tier without room",
            "give the bytes of the fast volume",
        )
    return capacity


def speeds_of(options: argparse.Namespace) -> "TierSpeeds":
    """Return the speeds of the two volumes."""
    from fairlead.tiering.speeds import TierSpeeds

    try:
        return TierSpeeds(
            _rate_of("--ssd", options.ssd), _rate_of("--hdd", options.hdd), parse_duration(options.seek)
        )
    except ValueError as error:
        raise SettingsError(f"--seek {options.seek}: {fault(error)}", "write it like 8ms") from None


def _rate_of(name: str, text: str) -> BytesPerSecond:
    try:
        rate = parse_bandwidth(text)
    except ValueError as error:
        raise SettingsError(f"{name} {text}: {fault(error)}", "write it like 150MB/s") from None
    if not rate:
        raise SettingsError(f"{name} {text}: a volume has a rate above 0", "write it like 150MB/s")
    return rate


def to_document(results: "dict[str, TierResult]", choice: "TierChoice", *, explain: bool) -> dict[str, Any]:
    """Return the results as JSON."""
    document: dict[str, Any] = {
        "policies": {name: _fields(result) for name, result in results.items()},
        "chosen": choice.name,
        "why": choice.why,
    }
    if explain:
        from fairlead.tiering.choice import frontier

        document["accesses"] = next(iter(results.values())).accesses
        document["frontier"] = [
            {
                "policy": name,
                "hit_ratio": round(results[name].hit_ratio, _DIGITS),
                "moves": results[name].moves,
            }
            for name in frontier(results)
        ]
    return document


def _fields(result: "TierResult") -> dict[str, Any]:
    return {
        "hit_ratio": round(result.hit_ratio, _DIGITS),
        "byte_hit_ratio": round(result.byte_hit_ratio, _DIGITS),
        "moves": result.moves,
        "bytes_moved": result.bytes_moved,
        "net_s": round(result.net_s, _DIGITS),
        "promotions": result.promotions,
        "dirty_demotions": result.dirty_demotions,
        "clean_demotions": result.clean_demotions,
    }


def page(results: "dict[str, TierResult]", choice: "TierChoice", capacity: int, *, explain: bool) -> Page:
    """Return the results for people."""
    rows = [
        [Cell(name, tone=Tone.GOOD if name == choice.name else None), *_cells(each)]
        for name, each in results.items()
    ]
    accesses = next(iter(results.values())).accesses
    head = f"{pluralize(accesses, 'access', 'accesses')}, {format_bytes(capacity)} on the fast volume"
    parts: list[Any] = [head, Table.of(_HEAD, rows), f"{choice.name}: {choice.why}"]
    if explain:
        parts += ["", Text("The frontier, from the fewest moves to the most hits:"), _frontier_table(results)]
    return Page.of(*parts)


def _cells(result: "TierResult") -> list[str]:
    return [
        f"{100 * result.hit_ratio:.1f} %",
        f"{100 * result.byte_hit_ratio:.1f} %",
        f"{result.moves:,}",
        format_bytes(result.bytes_moved),
        f"{format_number(result.net_s)} s",
    ]


def _frontier_table(results: "dict[str, TierResult]") -> Table:
    from fairlead.tiering.choice import frontier

    rows = []
    for name in frontier(results):
        result = results[name]
        bar = "#" * round(40 * result.hit_ratio)
        rows.append([name, f"{result.moves:,}", f"{100 * result.hit_ratio:.1f} %", bar])
    return Table.of(("POLICY", "MOVES", "HITS", ""), rows)
