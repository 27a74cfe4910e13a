"""Measure a link between two hosts beside a plain protobuf stream of grpcio, on the loopback of this machine.

A sender writes frames of 720p (2,764,800 bytes) as fast as the transport lets it; the receiver checks the
sequence number and a checksum of every frame. Both without TLS, and both with mutual TLS. A round runs each
of the four once, in another order than the round before; ratios are medians over the rounds. A hop waits for
a quiet moment, and is measured again if other processes used more than a sixth of a core meanwhile. Exit code
1: a target is missed.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.pipeline_rounds import Result, Round, Rounds, summary
from fairlead.cli.output.show import to_table
from fairlead.pipeline.hosts.certificates import write_certificates

ROOT: Final = Path(__file__).parent.parent
WORKER: Final = Path(__file__).with_name("pipeline_link_worker.py")
SIZE: Final = 720 * 1280 * 3
FRAMES: Final = 250
WARM: Final = 30
DEPTH: Final = 8
TARGET: Final = 1.2
"""The least frames/s of the link, as a multiple of the peer's, without and with TLS."""
PEERS: Final = {"link": "", "grpcio": "link", "link with TLS": "", "grpcio with TLS": "link with TLS"}
"""The kinds of hops, and which of them is measured against a peer."""


def start(transport: str, end: str, facts: dict[str, Any]) -> "subprocess.Popen[str]":
    """Start one end; its facts are its first line of input."""
    process = subprocess.Popen(
        [sys.executable, str(WORKER), transport, end],
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(facts) + "\n")
    process.stdin.flush()
    return process


def hop(kind: str, keys: str) -> Result:
    """Pass frames between two processes; return frames/s, and the CPU milliseconds of both for a frame."""
    transport, _, tls = kind.partition(" ")
    keys = keys if tls else ""
    facts = {"frames": FRAMES, "warm": WARM, "size": SIZE, "depth": DEPTH, "keys": keys, "port": 0}
    receiver = start(transport, "receiver", facts)
    assert receiver.stdout is not None
    port = int(receiver.stdout.readline())
    sender = start(transport, "sender", facts | {"port": port})
    try:
        sent = json.loads(sender.communicate(timeout=300)[0].splitlines()[-1])
        received = json.loads(receiver.communicate(timeout=300)[0].splitlines()[-1])
    finally:
        sender.kill()
        receiver.kill()
    cpu = 1000 * (sent["cpu"] + received["cpu"]) / received["frames"]
    return {"rate": received["frames"] / received["wall"], "cpu": cpu}


def report(rounds: Sequence[Round]) -> bool:
    """Print the medians and the ratios; return whether both targets are met."""
    rows = []
    passed = True
    for kind, link in PEERS.items():
        rate, spread, cpu, ratio = summary(rounds, kind, link or kind)
        verdict = "" if not link else "ok" if ratio >= TARGET else "MISSED"
        passed = passed and verdict != "MISSED"
        bar = f"{TARGET:g}x" if verdict else ""
        rows.append((kind, rate, spread, cpu, f"{ratio:.2f}x", bar, verdict))
    head = ("TRANSPORT", "FRAMES/S", "SPREAD", "CPU MS", "LINK IS", "TARGET", "VERDICT")
    print(to_table(head, rows))
    return passed


def main() -> int:
    """Measure; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--short", action="store_true", help="five rounds")
    options = parser.parse_args()
    peers = ", ".join(f"{name} {version(name)}" for name in ("grpcio", "protobuf"))
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, {peers}")
    with TemporaryDirectory() as keys:
        write_certificates(keys, ["host,127.0.0.1"], 1)
        rounds = Rounds(partial(hop, keys=keys), tuple(PEERS))
        results = rounds.run(5 if options.short else options.rounds)
    print(f"720p, {SIZE:,} bytes, {DEPTH} frames under way; {rounds.describe(results)}")
    return 0 if report(results) else 1


if __name__ == "__main__":
    sys.exit(main())
