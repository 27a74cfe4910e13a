"""One job split among workers of fixed rates: `make bench-split`. Makespans beside the ideal, and peers.

    python -m bench.split [--rounds N] [--only NAME] [--short]

Each case starts a real store with its coordinator and one process for each worker (`fairlead bench split`).
The bars: at most 2 % over the ideal sum of rates, at most 5 % with an event or a slow link; 100,000 tiny
inputs at 2,000 a second or more with less than 60 MB in the coordinator; every result compared with its
input. The peers run in the same processes with the same inputs: static halves, a split in proportion to the
rates (with the exact rates, and with each device believed 30 % faster), guided self-scheduling, factoring and
work stealing. Medians over rounds; exits 1 if a bar is missed.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.errors import FairleadError
from fairlead.splitbench.measure import measure
from fairlead.splitbench.plan import SplitPlan, parse_event, parse_rates
from fairlead.splitting.peers import PEERS

PLAIN: Final = 0.02
DISTURBED: Final = 0.05
MOST_BYTES: Final = 60_000_000
LEAST_RATE: Final = 2000.0
RATIOS: Final = ("1:37", "1:306", "1:7.25", "1:3.7", "1:1.4")
EVENTS: Final = ("device-slows@30%", "server-halves@50%", "device-lost@98%")
LINKS: Final = (10_000_000.0, 1_000_000.0)


@dataclass(frozen=True)
class Case:
    """A measurement with its bar; None: it is a peer's."""

    name: str
    plan: SplitPlan
    bar: float | None


def main() -> int:
    """Measure, print, and return 1 if a bar is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("bars", "peers", "overhead"), help="one part (default: all)")
    parser.add_argument("--short", action="store_true", help="one round of shorter jobs")
    options = parser.parse_args()
    rounds, seconds = (1, 5.0) if options.short else (options.rounds, 10.0)
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    missed: list[str] = []
    parts: dict[str, Callable[[], list[str]]] = {
        "bars": lambda: bars(list(barred(seconds)), rounds),
        "peers": lambda: peers(2.0 if options.short else 4.0),
        "overhead": overhead,
    }
    for name, part in parts.items():
        if options.only in (None, name):
            missed += part()
    print("\n".join(f"MISSED: {line}" for line in missed) or "every bar is held")
    print(f"repeat: {sys.executable} -m bench.split {' '.join(sys.argv[1:])}".rstrip())
    return 1 if missed else 0


def barred(seconds: float) -> Iterable[Case]:
    """Yield the cases with a bar."""
    for text in RATIOS:
        yield Case(text, SplitPlan(parse_rates(text), int(100 * seconds), seconds), PLAIN)
    yield Case("1:1:5", SplitPlan(parse_rates("1:1:5"), int(100 * seconds), seconds), PLAIN)
    for text in ("1:37", "1:3.7"):
        plan = SplitPlan(parse_rates(text), int(100 * seconds), seconds)
        for event in EVENTS:
            yield Case(f"{text} {event}", replace(plan, event=parse_event(event)), DISTURBED)
        for link in LINKS:
            yield Case(f"{text} link {link / 1e6:g} MB/s", replace(plan, link=link), DISTURBED)
    lost = replace(
        SplitPlan(parse_rates("1:1.4"), int(100 * seconds), seconds), event=parse_event(EVENTS[-1])
    )
    yield Case(f"1:1.4 {EVENTS[-1]}", lost, DISTURBED)


def bars(cases: Sequence[Case], rounds: int) -> list[str]:
    """Measure cases in rounds; return what missed its bar."""
    found: dict[str, list[dict[str, Any]]] = {case.name: [] for case in cases}
    for number in range(rounds):
        for case in cases if number % 2 == 0 else reversed(cases):
            found[case.name].append(once(replace(case.plan, seed=number)))
    print(
        f"\n{'rates':28} {'ideal':>8} {'makespan':>9} {'over, median (worst)':>24} {'bar':>5} {'device':>8}"
    )
    missed = []
    for case in cases:
        rows = found[case.name]
        overs = [row["over"] for row in rows]
        over = statistics.median(overs)
        wrong = sum(row["lost"] + row["doubled"] for row in rows)
        assert case.bar is not None
        print(
            f"{case.name:28} {statistics.median(row['ideal_s'] for row in rows):8.3f} "
            f"{statistics.median(row['makespan_s'] for row in rows):9.3f} "
            f"{100 * over:15.2f} ({100 * max(overs):5.2f}) % {100 * case.bar:3.0f} % "
            f"{100 * rows[0]['device_share']:6.2f} %" + (f"  {wrong} WRONG" if wrong else "")
        )
        if over > case.bar or wrong:
            missed.append(f"{case.name}: {100 * over:.2f} % over, {wrong} lost or doubled")
    return missed


def peers(seconds: float) -> list[str]:
    """Measure the rules of others beside the split's own; return where one was better by a percent."""
    print(f"\n{'over the ideal, %':28}" + "".join(f"{name:>17}" for name in ("adaptive", *columns())))
    missed = []
    # At 1:306 half of the inputs take the device 150 times as long as the split takes.
    for text in (*(each for each in RATIOS if each != "1:306"), "1:3.7 device-slows@30%"):
        rates, _, event = text.partition(" ")
        plan = SplitPlan(parse_rates(rates), int(100 * seconds), seconds)
        plan = replace(plan, event=parse_event(event)) if event else plan
        overs = {"adaptive": once(plan)["over"]}
        for name in columns():
            rule, _, believed = name.partition(" ")
            row = once(replace(plan, rule=rule, believed=1.3 if believed else 1.0))
            overs[name] = row["over"]
        print(f"{text:28}" + "".join(f"{100 * over:17.1f}" for over in overs.values()), flush=True)
        best = min(overs, key=lambda name: overs[name])
        if overs["adaptive"] > overs[best] + 0.01:
            missed.append(f"{text}: {best} is better by {100 * (overs['adaptive'] - overs[best]):.1f} points")
    return missed


def columns() -> list[str]:
    """Return the peers by name; `proportional` with the exact rates, and with a misjudged device."""
    named = list(PEERS)
    named.insert(named.index("proportional") + 1, "proportional +30")
    return named


def overhead() -> list[str]:
    """Hand out 100,000 tiny inputs, and measure the coordinator."""
    row = once(SplitPlan((1.0, 1.0), 100_000, 25.0))
    rate = row["inputs"] / row["makespan_s"]
    print(
        f"\n100,000 inputs of {row['input_bytes']} bytes: {rate:,.0f} a second, coordinator "
        f"{row['coordinator_peak_bytes'] / 1e6:.1f} MB at most, "
        f"{1e6 * row['coordinator_processor_s'] / row['inputs']:.0f} us of a processor each"
    )
    right = rate >= LEAST_RATE and row["coordinator_peak_bytes"] < MOST_BYTES
    wrong = row["lost"] + row["doubled"]
    return [] if right and not wrong else [f"100,000 inputs: {rate:.0f}/s, {wrong} lost or doubled"]


def once(plan: SplitPlan) -> dict[str, Any]:
    """Measure a plan once."""
    with tempfile.TemporaryDirectory(prefix="fairlead-split-") as folder:
        try:
            return measure(plan, folder, lambda _: None)
        except FairleadError as error:
            sys.exit(f"{plan}: {error}")


if __name__ == "__main__":
    sys.exit(main())
