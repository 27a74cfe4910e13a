"""Overload every policy: a source at twice the capacity of the stage behind it, for a minute each.

Memory of all processes and the age of frames at the sink (both about six times a second), and every drop
are measured. It must hold that sent = taken + dropped on the edge, exactly; that the age has a bound, which
follows from the depth; and that memory does not grow: its largest value in the second half is at most a tenth
and 8 MiB above that of the first. Exit code 1: it does not.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from fairlead.cli.output.show import to_table
from fairlead.pipeline.check import require_sound
from fairlead.pipeline.driver import PipelineDriver
from fairlead.pipeline.frame import boottime
from fairlead.pipeline.fuse import plan_workers
from fairlead.pipeline.place import resident_bytes
from fairlead.pipeline.yaml_file import parse_pipeline

POLICIES: Final = ("block", "drop_oldest", "drop_newest", "latest_only", "sample(2)")
CALL: Final = 0.02
"""Seconds of one call: the capacity is 50 frames/s."""
RATE: Final = 2 / CALL
DEPTH: Final = 4
MOST_AGE: Final = 0.5
"""Seconds; a queue of the depth, the slots and the call itself take 200 ms on an idle machine."""
SLACK: Final = 8 << 20
MIB: Final = 1 << 20


def slow(image: Any) -> Any:
    """Take 20 ms; the record says when it was done."""
    time.sleep(CALL)
    return {"n": int(image.flat[0]), "done": boottime()}


def overload(policy: str, seconds: float, folder: str) -> tuple[tuple[str, ...], bool]:
    """Run one policy; return its row of the table, and whether everything holds."""
    frames = int(seconds * (RATE if policy != "block" else RATE / 2))
    text = f"""
pipeline: overload
fuse: false
stages:
  - {{name: camera, source: numbers, options: {{count: {frames}, shape: [720, 1280, 3], rate: {RATE}}}}}
  - {{name: slow, run: "{__file__}:slow"}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}}}
edges:
  - {{from: camera, to: slow, policy: {policy}, depth: {DEPTH}}}
  - {{from: slow, to: log}}
"""
    sizes: list[int] = []
    ages: list[float] = []

    def on_status(status: dict[str, Any]) -> None:
        sizes.append(sum(resident_bytes(pid) for pid in status["processes"].values()))
        ages.append(status["edges"][-1]["age"])  # of the frame that the sink took last

    plan = plan_workers(require_sound(parse_pipeline(text.encode(), f"{folder}/p.yaml")))
    status = PipelineDriver(plan, print, on_status).run()
    edge = status["edges"][0]
    written = [json.loads(line)["sequence"] for line in Path(folder, "out.jsonl").read_text().splitlines()]
    dropped = sum(edge["dropped"].values())
    exact = frames == edge["sent"] == edge["taken"] + dropped and len(written) == edge["taken"]
    ordered = written == sorted(set(written))
    running = [size for size in sizes[len(sizes) // 10 :] if size]
    half = len(running) // 2
    bounded = max(running[half:]) <= 1.1 * max(running[:half]) + SLACK
    age = p99(ages)
    passed = exact and ordered and bounded and age <= MOST_AGE
    counts = ", ".join(f"{number} {reason}" for reason, number in edge["dropped"].items()) or "0"
    row = (policy, str(edge["sent"]), str(edge["taken"]), counts, f"{1000 * age:.0f} ms")
    memory = f"{max(running[:half]) // MIB}/{max(running[half:]) // MIB} MiB"
    return (
        *row,
        memory,
        "ok" if passed else f"FAILED (exact {exact}, ordered {ordered}, memory {bounded})",
    ), passed


def p99(values: Sequence[float]) -> float:
    """Return the 99th percentile."""
    return sorted(values)[int(0.99 * (len(values) - 1))]


def main() -> int:
    """Measure; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--short", action="store_true", help="five seconds each")
    options = parser.parse_args()
    rows, passed = [], True
    with tempfile.TemporaryDirectory() as folder:
        for policy in POLICIES:
            row, fine = overload(policy, 5.0 if options.short else options.seconds, folder)
            rows.append(row)
            passed = passed and fine
    print(to_table(("POLICY", "SENT", "TAKEN", "DROPPED", "AGE P99", "MEMORY 1ST/2ND HALF", "VERDICT"), rows))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
