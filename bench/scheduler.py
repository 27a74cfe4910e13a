"""Measure `fairlead serve scheduler` beside the stock kube-scheduler: one API server, one run.

A lab of nodes that kwok simulates, eight GPUs each. The schedulers run alternately, one at a time, in rounds:

  plain          pods that request CPU and memory, created while the scheduler runs
  plain, first   the same, all created before it starts
  share          2 GiB of a GPU's memory: fairlead by one write, and kube-scheduler with fairlead's extender
  claims         the same as DRA claims: kube-scheduler, and fairlead on the very same claims
  ..., first     the same, all created before: for a slow scheduler they are pending early in any case
  own claims     fairlead on pods whose binding cannot name the device to the node, so that it must create a
                 claim; all created before

A separate process creates the pods as fast as the API server accepts them; slow ways get fewer pods. Rates
are those of the middle four fifths of all bindings. The scheduler `nothing` binds each pod to the next node:
its rate is the limit of the API server and of creating pods. Exit code 1: a bar is missed.

`--short` takes about two minutes: 500 nodes, plain pods and shares. With `--before CHECKOUT`, the scheduler
of an earlier commit alternates with this one, in interleaved pairs, and its CPU for each pod is the bar.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

from bench import pairs
from bench.labs import HOUSE, run_lab
from bench.pairs import Pair
from bench.scheduler_lab import CpuUsage, create_claim_objects, fleet, for_each, programs, stop_scheduler
from bench.scheduler_load import NAMESPACE, ROUND, Load
from bench.scheduler_peers import PeerError, PeerRunner
from bench.scheduler_report import (
    HEAD,
    USE_HEAD,
    Bar,
    Case,
    CaseResult,
    memory_of_others,
    quantiles,
    rate,
    rate_limit,
    rows,
    spread,
    use_rows,
    verdicts,
)
from fairlead.cli.output.show import to_table
from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.cluster.kinds import PODS, RESOURCE_CLAIMS
from fairlead.lab.control.fleet import MOST_NODES
from fairlead.lab.run import process
from fairlead.lab.run.state import Lab, LabProfile
from fairlead.lab.run.up import LabSpec

KUBE, EXTENDED, OURS, NOTHING = "kube-scheduler", "kube-scheduler + extender", "fairlead", "nothing"
BEFORE = "fairlead before"
NAMES = {
    KUBE: "default-scheduler",
    EXTENDED: "default-scheduler",
    OURS: "fairlead",
    BEFORE: "fairlead",
    NOTHING: "nothing",
}
PLAIN, FIRST, SHARE, SHARES = "plain", "plain, first", "share", "share, first"
CLAIM, CLAIMS, OWN = "claims", "claims, first", "own claims"
BARS = (
    Bar("plain pods: bound per second", (PLAIN, OURS), (PLAIN, KUBE), lambda one: one.rate, 1.0),
    Bar("plain pods: CPU per pod", (PLAIN, OURS), (PLAIN, KUBE), lambda one: one.cpu, 0.5, most=True),
    Bar("shares: beside DRA claims", (SHARE, OURS), (CLAIM, KUBE), lambda one: one.rate, 5.0),
    Bar("shares: beside the extender", (SHARE, OURS), (SHARE, EXTENDED), lambda one: one.rate, 5.0),
    Bar("shares, first: beside DRA claims", (SHARES, OURS), (CLAIMS, KUBE), lambda one: one.rate, 5.0),
    Bar("shares, first: beside the extender", (SHARES, OURS), (SHARES, EXTENDED), lambda one: one.rate, 5.0),
)
SHORT_BARS = (
    BARS[0],
    # Half of its CPU is the bar on 5,000 nodes: there kube-scheduler scores more than 500 nodes.
    Bar("plain pods: CPU per pod", (PLAIN, OURS), (PLAIN, KUBE), lambda one: one.cpu, 1.0, most=True),
)
IDLE, LOOKS = 3.0, 4
"""Seconds of a sample, and the number of samples, of the CPU that the lab's programs use while idle."""
REST = 1.0
"""Seconds for the work that follows the last bindings."""
PATIENCE = 300.0


def cases(pods: int, rounds: int) -> list[Case]:
    """Return the cases, in the order of a round."""
    few, some = max(50, pods // 40), max(50, pods // 5)
    return [
        Case(PLAIN, KUBE, "plain", pods // rounds, rounds=rounds),
        Case(PLAIN, OURS, "plain", pods // rounds, rounds=rounds),
        Case(PLAIN, NOTHING, "plain", some, rounds=1),
        Case(CLAIMS, KUBE, "claim", few, 120.0, rounds, before=True),
        Case(SHARES, EXTENDED, "memory", few, 120.0, rounds, before=True),
        Case(SHARES, OURS, "memory", some, rounds=rounds, before=True),
        Case(CLAIMS, OURS, "claim", some // 2, 120.0, rounds, before=True),
        Case(OWN, OURS, "alias", some // 2, 120.0, 1, before=True),
        Case(CLAIM, KUBE, "claim", few, 120.0, rounds),
        Case(SHARE, EXTENDED, "memory", few, 120.0, rounds),
        Case(SHARE, OURS, "memory", some, rounds=rounds),
        Case(FIRST, KUBE, "plain", pods // rounds, rounds=1, before=True),
        Case(FIRST, OURS, "plain", pods // rounds, rounds=1, before=True),
    ]


def short_cases(pods: int, rounds: int, *, paired: bool) -> list[Case]:
    """Return the cases of the short form; `paired`: beside an earlier version of fairlead."""
    peers = ((PLAIN, BEFORE), (PLAIN, OURS), (SHARE, BEFORE), (SHARE, OURS)) if paired else ()
    work = peers or ((PLAIN, KUBE), (PLAIN, OURS), (SHARE, OURS))
    kinds = {PLAIN: "plain", SHARE: "memory"}
    return [Case(name, peer, kinds[name], pods // rounds, rounds=rounds) for name, peer in work]


class Worker:
    """The process that creates the pods and watches their bindings."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def send(self, load: Load) -> None:
        """Send the load; the process begins at once."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(load)) + "\n")
        self._process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Return the next report of the process."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the process that creates the pods has failed; its error is above")
        report: dict[str, Any] = json.loads(line)
        return report


@contextmanager
def run_worker() -> Iterator[Worker]:
    """Run the process that creates the pods."""
    command = [sys.executable, "-m", "bench.scheduler_load"]
    with subprocess.Popen(
        command, cwd=HOUSE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            yield Worker(child)
        except BaseException:
            child.kill()
            raise


class Benchmark:
    """The rounds, on one lab."""

    def __init__(self, lab: Lab, client: Client, stable: PeerRunner) -> None:
        self._lab = lab
        self._client = client
        self._stable = stable
        self._idle: dict[str, float] = {}
        self.seen: list[CaseResult] = []

    async def rest(self) -> None:
        """Measure the CPU of the lab's programs while idle."""
        looks = [CpuUsage.now(programs(self._lab))]
        for _ in range(LOOKS):
            await asyncio.sleep(IDLE)
            looks.append(CpuUsage.now(programs(self._lab)))
        rates = [
            {name: used / (now.at - before.at) for name, used in now.since(before).items()}
            for before, now in pairwise(looks)
        ]
        # The minimum: earlier work may still keep them busy for a while.
        self._idle = {name: min(each[name] for each in rates) for name in rates[0]}

    async def play(self, case: Case, number: int) -> None:
        """Run one scheduler on one case, record the result, and delete the pods."""
        name = f"{case.kind}-{number}-{len(self.seen)}"
        load = Load(str(self._lab.kubeconfig), name, case.kind, NAMES[case.peer], case.pods, case.limit)
        log(f"  {case.name}, {case.peer}: {case.pods} pods ...")
        try:
            result = await self._measure(case, number, load)
        except PeerError as error:
            log(f"    not measured: {error}")
        else:
            self.seen.append(result)
            log(f"    {result.bound} bound, {result.rate:.0f}/s, {result.cpu:.2f} ms of its CPU for each")
            if result.bound < case.pods:
                await self._log_reason(name)
        await self._delete_pods(name)

    async def _log_reason(self, name: str) -> None:
        """Log the condition of the first pending pod."""
        chosen = f"{ROUND}={name}"
        left = await self._client.list(PODS, NAMESPACE, labels=chosen, fields="spec.nodeName=", limit=1)
        for pod in left.items:
            reason = next(
                (
                    condition.message
                    for condition in pod.status.conditions
                    if condition.type == "PodScheduled"
                ),
                "",
            )
            log(f"    {pod.metadata.name} waits: {reason or 'no reason is given'}")

    async def _measure(self, case: Case, number: int, load: Load) -> CaseResult:
        with run_worker() as worker:
            if case.before:
                worker.send(load)
                worker.receive()
            began = time.monotonic()
            with self._stable.running(case.peer) as peer:
                start = time.monotonic() - began
                running = programs(self._lab) | {str(each.pid): each for each in peer.processes}
                before = CpuUsage.now(running)
                if not case.before:
                    worker.send(load)
                    worker.receive()
                times = worker.receive()
                await asyncio.sleep(REST)
                after = CpuUsage.now(running)
                memory = sum(process.memory(each) for each in peer.processes)
                held = {name: process.memory(each) for name, each in programs(self._lab).items()}
                decision = quantiles(self._stable.decision_histogram(peer))
        result = self._result(case, number, times, before, after)
        return replace(result, memory=memory, decision=decision, start=start, held=held)

    def _result(
        self, case: Case, number: int, times: dict[str, Any], before: CpuUsage, after: CpuUsage
    ) -> CaseResult:
        made: dict[str, float] = times["created"]
        bound: dict[str, float] = times["bound"]
        # If the pods were created first, some are bound before the scheduler's first figures are read.
        counted = max(1, sum(before.at <= at for at in bound.values()))
        used = after.since(before)
        idle = {name: rate_ * (after.at - before.at) for name, rate_ in self._idle.items()}
        others = {name: round(max(0.0, used[name] - idle[name]) / counted * 1e3, 3) for name in self._idle}
        return CaseResult(
            case,
            number,
            len(bound),
            max(bound.values(), default=0.0) - min(made.values()),
            rate(bound.values()),
            (0.0, 0.0) if case.before else spread(at - made[name] for name, at in bound.items()),
            (0.0, 0.0),
            sum(used[name] for name in used if name not in self._idle) / counted * 1e3,
            others,
        )

    async def _delete_pods(self, name: str) -> None:
        """Delete the pods of a round, and wait until their claims are gone as well."""
        chosen = f"{ROUND}={name}"
        pods = (await self._client.list(PODS, NAMESPACE, labels=chosen)).items
        await for_each(pods, lambda pod: self._client.delete(PODS, pod.metadata.name, NAMESPACE, grace=0))
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            left = await self._client.list(PODS, NAMESPACE, labels=chosen, limit=1)
            if not left.items and not (await self._client.list(RESOURCE_CLAIMS, NAMESPACE)).items:
                return
            await asyncio.sleep(0.5)
        raise SystemExit("pods or claims of the last round do not go away")


async def run(lab: Lab, options: argparse.Namespace) -> list[CaseResult]:
    """Run all rounds; return the results."""
    stock = stop_scheduler(lab)
    async with Client.connect(kubeconfig.load(str(lab.kubeconfig))) as client:
        log("  slices, classes and a template ...")
        await create_claim_objects(lab, client, options.nodes)
        play = Benchmark(lab, client, PeerRunner(lab, stock, options.before))
        await play.rest()
        for number in range(1, options.rounds + 1):
            log(f"round {number} of {options.rounds}")
            # The first case may run on a differently loaded machine than the last: reverse the next round.
            for case in select_cases(options)[:: 1 if number % 2 else -1]:
                if number <= case.rounds and options.only in f"{case.name}/{case.peer}":
                    await play.play(case, number)
    return play.seen


def select_cases(options: argparse.Namespace) -> list[Case]:
    """Return the cases of these options."""
    if options.short or options.before:
        return short_cases(options.pods, options.rounds, paired=bool(options.before))
    return cases(options.pods, options.rounds)


def bars(options: argparse.Namespace) -> tuple[Bar, ...]:
    """Return the bars of these options."""
    return SHORT_BARS if options.short else BARS


def to_pairs(results: list[CaseResult]) -> list[Pair]:
    """Return the CPU for each pod of both versions, round by round."""
    cpu = {(each.case.name, each.round, each.case.peer): each.cpu / 1e3 for each in results}
    return [
        Pair(f"{name}, a pod", cost, cpu[name, number, OURS])
        for (name, number, peer), cost in cpu.items()
        if peer == BEFORE and (name, number, OURS) in cpu
    ]


def compare(results: list[CaseResult], options: argparse.Namespace) -> int:
    """Print the verdicts beside an earlier version; return the exit code."""
    measured = to_pairs(results)
    if options.output == "table":
        print(to_table(USE_HEAD, use_rows(results)))
        return pairs.report(measured, options.before, "scheduler")
    judged = pairs.verdicts(measured)
    runs = [each.to_json() for each in results]
    print(json.dumps({"runs": runs, "bars": [each.to_json() for each in judged]}, indent=2))
    return 0 if judged and all(each.met for each in judged) else 1


def report(results: list[CaseResult], options: argparse.Namespace) -> int:
    """Print the results and the bars; return the exit code."""
    judged = [
        verdict
        for verdict in verdicts(results, bars(options))
        if not options.only or verdict["ratio"] is not None
    ]
    if options.output == "json":
        print(json.dumps({"runs": [each.to_json() for each in results], "bars": judged}, indent=2))
    else:
        print(to_table(HEAD, rows(results)))
        print(to_table(USE_HEAD, use_rows(results)))
        print(f"memory of the others, at most: {memory_of_others(results)}")
        print(rate_limit(results, (PLAIN, NOTHING), PLAIN))
        for each in judged:
            sign = "<=" if each["at_most"] else ">="
            ratio = "not measured" if each["ratio"] is None else f"{each['ratio']:.2f}x"
            print(f"{'PASS' if each['met'] else 'MISS'}: {each['bar']}: {ratio} ({sign} {each['target']:g}x)")
        print(f"Repeat with: {pairs.repeat('scheduler', sys.argv[1:])}")
    return 0 if all(each["met"] for each in judged) else 1


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, help="default: 5000, short: 500")
    parser.add_argument("--pods", type=int, help="for each scheduler, in all rounds; default: 10000")
    parser.add_argument("--rounds", type=int, help="default: 2")
    pairs.add_forms(parser)
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="only work/scheduler with this in its name"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    small = options.short or options.before
    options.nodes = options.nodes or (500 if small else 5000)
    options.rounds = options.pairs if options.before else options.rounds or 2
    options.pods = options.pods or (1000 * options.rounds if small else 10_000)
    if not (
        1 <= options.nodes <= MOST_NODES and 1 <= options.rounds <= 20 and options.rounds * 20 <= options.pods
    ):
        parser.error(
            f"nodes from 1 to {MOST_NODES}, rounds from 1 to 20, and at least 20 pods for each round"
        )
    began = time.monotonic()
    log(pairs.machine())
    log(f"{options.nodes} nodes with 8 GPUs each, {options.pods} plain pods for each scheduler")
    spec = LabSpec(
        LabProfile.CONTROL, f"scheduler-{os.getpid()}", fleet=fleet(options.nodes), owner=os.getpid()
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the lab must not outlive this process
    try:
        with run_lab(spec) as lab:
            results = asyncio.run(run(lab, options))
    except (KeyboardInterrupt, asyncio.CancelledError):
        log("stopped; nothing is left behind")
        return 130
    log(f"all of it took {time.monotonic() - began:.0f} s")
    return compare(results, options) if options.before else report(results, options)


def log(line: str) -> None:
    """Print progress on the standard error."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
