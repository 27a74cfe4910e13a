"""Measure the large peers of a hop, dora-rs and a Ray compiled graph: for a limited time, without remains.

`dora run` listens on loopback. Ray listens on every address, so it runs in namespaces of its own: of the
network, with nothing but loopback; of processes, so that no daemon outlives it; and with its own /dev/shm.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import uuid4

from bench.pipeline_rounds import Result
from fairlead.cli.output.show import to_table

HERE: Final = Path(__file__).parent
LIMIT: Final = 90.0
"""Seconds for one run of a peer."""
SHM: Final = "512m"
_ALONE: Final = (
    *("unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("sh", "-c", f'mount -t tmpfs -o size={SHM} tmpfs /dev/shm && ip link set lo up && "$0" "$@"'),
)
PEERS: Final[dict[str, tuple[Sequence[str], str]]] = {
    "dora-rs": ((), "pipeline_hop_dora.py"),
    "ray compiled graph": (_ALONE, "pipeline_hop_ray.py"),
}
"""What starts the program of each peer, and the program."""


def measure_alongside(ring: Callable[[], Result], facts: dict[str, Any], folder: str, number: int) -> str:
    """Return the table of interleaved rounds of the ring and each peer, with a line for each that fails."""
    hops: dict[str, list[Result]] = {name: [] for name in ("ring", *PEERS)}
    failures: dict[str, str] = {}
    for _ in range(number):
        hops["ring"].append(ring())
        for name in PEERS:
            if name not in failures:
                result = measure(name, facts, folder)
                if isinstance(result, str):
                    failures[name] = result
                else:
                    hops[name].append(result)
    rows = [_row(name, results, hops["ring"]) for name, results in hops.items() if results]
    head = ("ALONGSIDE", "FRAMES/S", "SPREAD", "CPU MS", "RING IS", "LOST", "REORDERED")
    lines = [f"alongside, {number} rounds of {facts['frames']:,} frames; Ray's CPU is that of its two actors"]
    lines += [to_table(head, rows), *(f"{name}: not measured: {why}" for name, why in failures.items())]
    return "\n".join(lines)


def measure(name: str, facts: dict[str, Any], folder: str) -> Result | str:
    """Return what one run of a peer measured, or in one line why it did not."""
    prefix, script = PEERS[name]
    mark = uuid4().hex
    paths = os.pathsep.join((str(HERE.parent), str(Path(folder).resolve())))
    with TemporaryDirectory(prefix="hop-") as temporary:
        try:
            process = subprocess.Popen(
                [*prefix, sys.executable, str(HERE / script)],
                env={**os.environ, "PYTHONPATH": paths, "FAIRLEAD_HOP_MARK": mark, "TMPDIR": temporary},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            output, _ = process.communicate(json.dumps(facts) + "\n", timeout=LIMIT)
        except OSError as error:
            return str(error)
        except subprocess.TimeoutExpired:
            process.kill()
            return f"no result in {LIMIT:g} s"
        finally:
            end_remains(mark)
    lines = output.strip().splitlines() or ["no output"]
    try:
        result: Result = json.loads(next(line for line in reversed(lines) if line.startswith("{")))
    except (ValueError, StopIteration):
        return lines[-1][:200]
    return result


def end_remains(mark: str) -> None:
    """Kill every process that a run of a peer has left behind: they all inherit its mark."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark.encode() in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)


def _row(name: str, results: Sequence[Result], ring: Sequence[Result]) -> tuple[str, ...]:
    rates = sorted(each["rate"] for each in results)
    ratio = statistics.median(own["rate"] / peer["rate"] for own, peer in zip(ring, results, strict=False))
    faults = [f"{sum(each.get(key, 0) for each in results):.0f}" for key in ("lost", "reordered")]
    cpu = statistics.median(each["cpu"] for each in results)
    spread = f"{rates[0]:,.0f}-{rates[-1]:,.0f}"
    return (name, f"{statistics.median(rates):,.0f}", spread, f"{cpu:.2f}", f"{ratio:.2f}x", *faults)
