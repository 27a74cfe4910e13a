"""Measure one hop between two processes of this machine: the ring beside iceoryx2 and a stream of grpcio.

A sender writes frames of 720p (2,764,800 bytes) as fast as the transport lets it; the receiver checks the
sequence number and a checksum of every frame, which touches every page of it. Both ends of the ring are
those of workers: outlet, intake, and how a worker waits. A round runs every transport once, in another order
than the round before; ratios are medians over the rounds. A hop waits for a quiet moment, and is measured
again if other processes used more than a sixth of a core meanwhile. Then the ring passes 100,000 small
frames, of which none may be lost or out of order. In the end the ring is measured beside dora-rs and a Ray
compiled graph, which have no target. Exit code 1: a target is missed.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from bench.pipeline_hop_alongside import measure_alongside
from bench.pipeline_rounds import Result, Round, Rounds, summary
from fairlead.cli.output.show import to_table
from fairlead.pipeline.ring.pair import ring_pair

HERE: Final = Path(__file__).parent
SOURCE: Final = HERE.parent / "src"
TRANSPORTS: Final = ("ring", "iceoryx2", "grpcio")
TARGETS: Final = {"iceoryx2": 0.9, "grpcio": 10.0}
"""The least frames/s of the ring, as a multiple of a peer's."""
SIZE: Final = 720 * 1280 * 3
SMALL: Final = 128 * 128 * 3
DEPTH: Final = 4
"""Frames between the ends; both transports have one more that is written, and one that is read."""
FRAMES: Final = {"ring": 2000, "iceoryx2": 2000, "grpcio": 120}
"""Some tenths of a second of each: many short rounds see the same machine."""
WARM: Final = 0.1
"""The share of frames that warm up."""


def start(
    transport: str, end: str, address: str, facts: dict[str, Any], peers: str
) -> "subprocess.Popen[str]":
    """Start one end; its facts are its first line of input."""
    is_ring = transport == "ring"
    script = HERE / ("pipeline_hop_ring.py" if is_ring else "pipeline_hop_worker.py")
    paths = [str(HERE.parent), str(SOURCE)] if is_ring else [peers]
    process = subprocess.Popen(
        [sys.executable, str(script), transport, end, address],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        pass_fds=[int(address)] if is_ring else (),
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


def hop(transport: str, peers: str, frames: int | None = None, size: int = SIZE) -> Result:
    """Pass frames between two processes; return frames/s, and the CPU milliseconds of both for a frame."""
    frames = frames or FRAMES[transport]
    facts = {"frames": frames, "warm": int(frames * WARM), "size": size, "depth": DEPTH, "slots": DEPTH + 2}
    ends = ring_pair(facts["slots"]) if transport == "ring" else ()
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


def report(rounds: Sequence[Round]) -> bool:
    """Print the medians and the ratios; return whether every target is met."""
    rows = []
    passed = True
    for transport in TRANSPORTS:
        rate, spread, cpu, ratio = summary(rounds, transport, "ring")
        target = TARGETS.get(transport)
        verdict = "" if target is None else "ok" if ratio >= target else "MISSED"
        passed = passed and verdict != "MISSED"
        bar = "" if target is None else f"{target:g}x"
        rows.append((transport, rate, spread, cpu, f"{ratio:.2f}x", bar, verdict))
    head = ("TRANSPORT", "FRAMES/S", "SPREAD", "CPU MS", "RING IS", "TARGET", "VERDICT")
    print(to_table(head, rows))
    return passed


def machine(folders: Sequence[str]) -> str:
    """Return what was measured on, and the versions of the peers."""
    versions = {each.metadata["Name"]: each.version for each in distributions(path=list(folders))}
    names = ("iceoryx2", "grpcio", "protobuf", "dora-rs", "ray")
    known = ", ".join(f"{name} {versions.get(name, '?')}" for name in names)
    return f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, {known}"


def main() -> int:
    """Measure; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", required=True, help="folder with iceoryx2, grpcio and protobuf")
    parser.add_argument(
        "--large-peers", default="", help="folder with dora-rs and ray; without it neither runs"
    )
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--small-frames", type=int, default=100_000)
    parser.add_argument("--short", action="store_true", help="seven rounds, and a tenth of the small frames")
    options = parser.parse_args()
    small = options.small_frames // 10 if options.short else options.small_frames
    print(f"{machine([options.peers, options.large_peers])}; load {os.getloadavg()[0]:.1f} before")
    rounds = Rounds(partial(hop, peers=options.peers), TRANSPORTS)
    results = rounds.run(7 if options.short else options.rounds)
    print(f"720p, {SIZE:,} bytes, {DEPTH} frames between the ends; {rounds.describe(results)}")
    passed = report(results)
    found = hop("ring", options.peers, small, SMALL)
    print(
        f"ring, {small:,} frames of {SMALL:,} bytes: none lost or out of order, "
        f"{found['rate']:,.0f} frames/s, {found['cpu']:.3f} ms CPU for a frame"
    )
    if options.large_peers:
        facts = {"frames": FRAMES["ring"] // 2, "warm": 100, "size": SIZE, "depth": DEPTH}
        ring = partial(hop, "ring", options.peers)
        print(measure_alongside(ring, facts, options.large_peers, 1 if options.short else 3))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
