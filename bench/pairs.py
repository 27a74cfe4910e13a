"""Measure two checkouts of this project in interleaved pairs: CPU seconds for each unit of work.

A pair is one measurement of each checkout, one right after the other; the order alternates from pair to
pair, so that other load of the machine affects both alike. The ratio of a job is the median of its pairs.
"""

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.cli.output.show import to_table

HOUSE = Path(__file__).parent.parent
SLOWER = 1.05
"""The most CPU of a unit of work, as a multiple of the CPU before."""
ROUNDS, LEAST = 6, 5
"""The number of pairs, even, so that each checkout is first equally often; and the fewest for a verdict."""
HEAD = ("JOB", "PAIRS", "BEFORE", "AFTER", "RATIO", "SPREAD", "VERDICT")
Costs = Mapping[str, float]
"""CPU seconds for a unit of work, by job."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder with the sources and the benchmarks of some commit."""

    folder: Path

    @property
    def source(self) -> Path:
        """The folder of its package."""
        return self.folder / "src"

    def environ(self) -> dict[str, str]:
        """Return environment variables with which Python imports this checkout's fairlead."""
        own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**own, "PYTHONPATH": str(self.source), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}

    def commit(self) -> str:
        """Return its commit, and whether files differ from it."""
        done = subprocess.run(
            ["git", "-C", str(self.folder), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip() or "no commit"

    def work(self, worker: str, words: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Any]:
        """Run a worker with this checkout's package, and return the JSON of its last line.

        The worker is the checkout's own if it has one: modules move. The facts define the work, and are the
        same for both.
        """
        own = (self.folder / "bench" / f"{worker}.py").exists()
        done = subprocess.run(
            [sys.executable, "-m", f"bench.{worker}", *words],
            input=json.dumps(facts),
            cwd=self.folder if own else HOUSE,
            env=self.environ(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result


AFTER = Checkout(HOUSE)


@dataclass(frozen=True, slots=True)
class Pair:
    """CPU seconds of a unit of one job, before and after."""

    job: str
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """The CPU after over the CPU before."""
        return self.after / self.before if self.before else float("inf")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of all pairs of one job."""

    job: str
    pairs: tuple[Pair, ...]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return statistics.median(pair.ratio for pair in self.pairs)

    @property
    def enough(self) -> bool:
        """Whether there are enough pairs for a verdict."""
        return len(self.pairs) >= LEAST

    @property
    def met(self) -> bool:
        """Whether the pairs show that the job is not slower."""
        return self.enough and self.ratio <= SLOWER

    def row(self) -> tuple[str, ...]:
        """Return the verdict as a row of a table."""
        ratios = [pair.ratio for pair in self.pairs]
        word = ("kept" if self.met else "MISSED") if self.enough else f"fewer than {LEAST} pairs"
        return (
            self.job,
            str(len(self.pairs)),
            _time(statistics.median(pair.before for pair in self.pairs)),
            _time(statistics.median(pair.after for pair in self.pairs)),
            f"{self.ratio:.3f}",
            f"{min(ratios):.3f}-{max(ratios):.3f}",
            f"{word} (at most {SLOWER:g})",
        )

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as a document."""
        costs = [{"before": pair.before, "after": pair.after} for pair in self.pairs]
        document = {"job": self.job, "cpu_seconds": costs, "ratio": round(self.ratio, 3)}
        return {**document, "at_most": SLOWER, "met": self.met}


def add_forms(parser: argparse.ArgumentParser) -> None:
    """Add the options for the short form and for a comparison with an earlier commit."""
    parser.add_argument("--short", action="store_true", help="a form of about two minutes")
    parser.add_argument(
        "--before",
        metavar="CHECKOUT",
        type=checkout,
        help="compare the CPU for each unit of work with this checkout's (git worktree add)",
    )
    parser.add_argument(
        "--pairs", metavar="N", type=int, default=ROUNDS, help=f"with --before (default: {ROUNDS})"
    )


def form(options: argparse.Namespace) -> str:
    """Return the form of these options: long or short, and a pair with --before."""
    return f"{'short' if options.short else 'long'}{' pair' if options.before else ''}"


def checkout(folder: str) -> Checkout:
    """Return the checkout in a folder."""
    if not os.path.isdir(os.path.join(folder, "src", "fairlead")):
        raise argparse.ArgumentTypeError(f"{folder}: no src/fairlead; name a checkout (git worktree add)")
    named = Checkout(Path(folder).resolve())
    done = subprocess.run(
        [sys.executable, "-c", "import fairlead; print(fairlead.__file__)"],
        env=named.environ(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if not Path(done.stdout.strip()).is_relative_to(named.source):
        raise argparse.ArgumentTypeError(f"{folder}: {sys.executable} imports another fairlead than this one")
    return named


def measure_pairs(before: Checkout, rounds: int, measure: Callable[[Checkout], Costs]) -> list[Pair]:
    """Measure both checkouts alternately; return a pair of each round for every job that both have."""
    measured: list[Pair] = []
    for number in range(rounds):
        costs = {}
        for side in (before, AFTER)[:: 1 if number % 2 == 0 else -1]:
            word = "after" if side is AFTER else "before"
            costs[word] = measure(side)
            print(
                f"pair {number + 1} of {rounds}, {word}: {_format_costs(costs[word])}",
                file=sys.stderr,
                flush=True,
            )
        measured += [
            Pair(job, cost, costs["after"][job])
            for job, cost in costs["before"].items()
            if job in costs["after"]
        ]
    return measured


def verdicts(pairs: Iterable[Pair]) -> list[Verdict]:
    """Return a verdict for each job."""
    jobs: dict[str, list[Pair]] = {}
    for pair in pairs:
        jobs.setdefault(pair.job, []).append(pair)
    return [Verdict(job, tuple(job_pairs)) for job, job_pairs in jobs.items()]


def report(pairs: Iterable[Pair], before: Checkout, target: str) -> int:
    """Print the verdicts, the machine, and the command to repeat; return the exit status."""
    results = verdicts(pairs)
    print(f"{machine()}; load {os.getloadavg()[0]:.1f}")
    print(f"before: {before.commit()}, after: {AFTER.commit()}; CPU for each unit of work")
    print(to_table(HEAD, [verdict.row() for verdict in results]))
    print(f"Repeat with: {repeat(target, sys.argv[1:])}")
    return 0 if results and all(verdict.met for verdict in results) else 1


def repeat(target: str, words: Sequence[str]) -> str:
    """Return the command that repeats this: a make target, or the program if there are other options."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--before")
    parser.add_argument("--peers")
    options, more = parser.parse_known_args(words)
    if more:
        return shlex.join(["python", "-m", f"bench.{target}", *words])
    short = " SHORT=1" if options.short else ""
    return f"make bench-{target}{short}{f' BEFORE={shlex.quote(options.before)}' if options.before else ''}"


def machine() -> str:
    """Describe the machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    kind = f"{platform.machine()} ({model})" if model else platform.machine()
    return f"{os.cpu_count()} CPUs, {kind}, Python {platform.python_version()}"


def _format_costs(costs: Costs) -> str:
    return ", ".join(f"{job} {_time(cost)}" for job, cost in costs.items())


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
