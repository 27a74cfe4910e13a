"""Measure one hop between two processes of this machine: the ring beside iceoryx2 and a stream of grpcio.

A sender writes frames of 720p (2,764,800 bytes) as fast as the transport lets it; the receiver checks the
sequence number and a checksum of every frame, which touches every page of it. A round runs every transport
once, in another order than the round before; ratios are medians over the rounds. A round during which other
processes used more than a sixth of a core is measured again. In the end the ring passes 100,000 small
frames, of which none may be lost or out of order. Exit code 1: a target is missed.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from fairlead.cli.output.show import to_table
from fairlead.pipeline.ring import ring_pair

WORKER: Final = Path(__file__).with_name("pipeline_hop_worker.py")
SOURCE: Final = Path(__file__).parent.parent / "src"
TRANSPORTS: Final = ("ring", "iceoryx2", "grpcio")
TARGETS: Final = {"iceoryx2": 0.9, "grpcio": 10.0}
"""The least frames/s of the ring, as a multiple of a peer's."""
SIZE: Final = 720 * 1280 * 3
SMALL: Final = 128 * 128 * 3
DEPTH: Final = 4
"""Frames between the ends; both transports have one more that is written, and one that is read."""
FRAMES: Final = {"ring": 2000, "iceoryx2": 2000, "grpcio": 150}
"""About half a second of each: many short rounds see the same machine."""
MOST_FOREIGN: Final = 1 / 6
WARM: Final = 0.1
"""The share of frames that warm up."""
Result = dict[str, float]


def start(
    transport: str, end: str, address: str, facts: dict[str, Any], peers: str
) -> "subprocess.Popen[str]":
    """Start one end; its facts are its first line of input."""
    process = subprocess.Popen(
        [sys.executable, str(WORKER), transport, end, address],
        env={
            **os.environ,
            "PYTHONPATH": str(SOURCE) if transport == "ring" else peers,
            "OMP_NUM_THREADS": "1",
        },
        pass_fds=[int(address)] if transport == "ring" else (),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(facts) + "\n")
    process.stdin.flush()
    return process


def last_line(process: "subprocess.Popen[str]") -> Result:
    """Return the result of an end, which ends then."""
    output, _ = process.communicate(timeout=600)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, process.args[2:]))} failed")  # type: ignore[index]  # a list of ours
    result: Result = json.loads(output.splitlines()[-1])
    return result


def hop(transport: str, frames: int, size: int, peers: str) -> Result:
    """Pass frames between two processes; return frames/s, and the CPU milliseconds of both for a frame."""
    facts = {"frames": frames, "warm": int(frames * WARM), "size": size, "depth": DEPTH}
    if transport == "ring":
        facts["depth"] = DEPTH + 2
    ends = ring_pair(facts["depth"]) if transport == "ring" else ()
    addresses = [str(end.fileno()) for end in ends] or [f"fairlead-hop-{uuid4().hex}"] * 2
    with ExitStack() as started:
        for end in ends:
            started.callback(end.close)
        receiver = start(transport, "receiver", addresses[1], facts, peers)
        started.callback(receiver.kill)
        assert receiver.stdout is not None
        line = receiver.stdout.readline()
        if not line:
            raise SystemExit(f"the receiver of {transport} failed")
        sender = start(transport, "sender", line.strip() or addresses[0], facts, peers)
        started.callback(sender.kill)
        for end in ends:
            end.close()
        if transport == "iceoryx2":  # the publisher waits for the subscriber, a server for its client
            received, sent = last_line(receiver), last_line(sender)
        else:
            sent, received = last_line(sender), last_line(receiver)
    cpu = 1000 * (sent["cpu"] + received["cpu"]) / received["frames"]
    return {"rate": received["frames"] / received["wall"], "cpu": cpu}


def busy_seconds() -> tuple[float, float]:
    """Return the CPU seconds of the machine, and those of this process and its children that have ended."""
    fields = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    uses = [resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    total = (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
    return total, sum(each.ru_utime + each.ru_stime for each in uses)


def interleave(rounds: int, peers: str) -> list[dict[str, Result]]:
    """Return the results of rounds; one with foreign load is measured again, three times as many at most."""
    results: list[dict[str, Result]] = []
    for number in range(3 * rounds):
        if len(results) == rounds:
            break
        order = TRANSPORTS[number % len(TRANSPORTS) :] + TRANSPORTS[: number % len(TRANSPORTS)]
        begin, (total, own) = time.monotonic(), busy_seconds()
        result = {each: hop(each, FRAMES[each], SIZE, peers) for each in order}
        total_after, own_after = busy_seconds()
        foreign = (total_after - total - (own_after - own)) / (time.monotonic() - begin)
        if foreign <= MOST_FOREIGN:
            results.append(result)
        else:
            print(f"a round with {foreign:.2f} cores of foreign load is measured again")
    if not results:
        raise SystemExit("no round was without foreign load: end what else runs on this machine")
    return results


def report(rounds: Sequence[dict[str, Result]]) -> bool:
    """Print the medians and the ratios; return whether every target is met."""
    rows = []
    passed = True
    for transport in TRANSPORTS:
        rates = sorted(each[transport]["rate"] for each in rounds)
        cpu = statistics.median(each[transport]["cpu"] for each in rounds)
        ratio = statistics.median(each["ring"]["rate"] / each[transport]["rate"] for each in rounds)
        target = TARGETS.get(transport)
        verdict = "" if target is None else "ok" if ratio >= target else "MISSED"
        passed = passed and verdict != "MISSED"
        bar = "" if target is None else f"{target:g}x"
        spread = f"{rates[0]:,.0f}-{rates[-1]:,.0f}"
        rate = f"{statistics.median(rates):,.0f}"
        rows.append((transport, rate, spread, f"{cpu:.2f}", f"{ratio:.2f}x", bar, verdict))
    head = ("TRANSPORT", "FRAMES/S", "SPREAD", "CPU MS", "RING IS", "TARGET", "VERDICT")
    print(to_table(head, rows))
    return passed


def machine(peers: str) -> str:
    """Return what was measured on, and the versions of the peers."""
    versions = {each.metadata["Name"]: each.version for each in distributions(path=[peers])}
    known = ", ".join(f"{name} {versions.get(name, '?')}" for name in ("iceoryx2", "grpcio", "protobuf"))
    return f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, {known}"


def main() -> int:
    """Measure; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", required=True, help="folder with iceoryx2, grpcio and protobuf")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--small-frames", type=int, default=100_000)
    parser.add_argument("--short", action="store_true", help="five rounds, and a tenth of the small frames")
    options = parser.parse_args()
    rounds, small = (
        (5, options.small_frames // 10) if options.short else (options.rounds, options.small_frames)
    )
    print(f"{machine(options.peers)}; load {os.getloadavg()[0]:.1f} before")
    results = interleave(rounds, options.peers)
    print(f"720p, {SIZE:,} bytes, {len(results)} interleaved rounds, {DEPTH} frames between the ends")
    passed = report(results)
    found = hop("ring", small, SMALL, options.peers)
    print(
        f"ring, {small:,} frames of {SMALL:,} bytes: none lost or out of order, "
        f"{found['rate']:,.0f} frames/s, {found['cpu']:.3f} ms CPU for a frame"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
