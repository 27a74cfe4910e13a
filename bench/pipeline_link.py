"""Measure a link between two hosts beside a plain protobuf stream of grpcio, on the loopback of this machine.

A sender writes frames of 720p (2,764,800 bytes) as fast as the transport lets it; the receiver checks the
sequence number and a checksum of every frame. Both without TLS, and both with mutual TLS. A round runs each
of the four once, in another order than the round before; ratios are medians over the rounds. Exit code 1: a
target is missed.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from fairlead.cli.output.show import to_table
from fairlead.pipeline.hosts.certificates import write_certificates

ROOT: Final = Path(__file__).parent.parent
WORKER: Final = Path(__file__).with_name("pipeline_link_worker.py")
SIZE: Final = 720 * 1280 * 3
FRAMES: Final = 400
WARM: Final = 40
DEPTH: Final = 8
TARGET: Final = 1.2
"""The least frames/s of the link, as a multiple of the peer's, without and with TLS."""
KINDS: Final = tuple((transport, tls) for tls in (False, True) for transport in ("link", "grpcio"))
Result = dict[str, float]


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


def hop(transport: str, keys: str) -> Result:
    """Pass frames between two processes; return frames/s, and the CPU milliseconds of both for a frame."""
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


def report(rounds: list[dict[tuple[str, bool], Result]]) -> bool:
    """Print the medians and the ratios; return whether both targets are met."""
    rows = []
    passed = True
    for transport, tls in KINDS:
        rates = sorted(each[transport, tls]["rate"] for each in rounds)
        cpu = statistics.median(each[transport, tls]["cpu"] for each in rounds)
        ratio = statistics.median(each["link", tls]["rate"] / each[transport, tls]["rate"] for each in rounds)
        verdict = "" if transport == "link" else "ok" if ratio >= TARGET else "MISSED"
        passed = passed and verdict != "MISSED"
        name = f"{transport}{' with TLS' if tls else ''}"
        bar = f"{TARGET:g}x" if verdict else ""
        spread = f"{rates[0]:,.0f}-{rates[-1]:,.0f}"
        median = f"{statistics.median(rates):,.0f}"
        rows.append((name, median, spread, f"{cpu:.2f}", f"{ratio:.2f}x", bar, verdict))
    head = ("TRANSPORT", "FRAMES/S", "SPREAD", "CPU MS", "LINK IS", "TARGET", "VERDICT")
    print(to_table(head, rows))
    return passed


def main() -> int:
    """Measure; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--short", action="store_true", help="three rounds")
    options = parser.parse_args()
    number = 3 if options.short else options.rounds
    peers = ", ".join(f"{name} {version(name)}" for name in ("grpcio", "protobuf"))
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, {peers}")
    results = []
    with TemporaryDirectory() as keys:
        write_certificates(keys, ["host,127.0.0.1"], 1)
        for index in range(number):
            order = KINDS[index % len(KINDS) :] + KINDS[: index % len(KINDS)]
            results.append({(kind, tls): hop(kind, keys if tls else "") for kind, tls in order})
    print(f"720p, {SIZE:,} bytes, {number} interleaved rounds, {DEPTH} frames under way")
    return 0 if report(results) else 1


if __name__ == "__main__":
    sys.exit(main())
