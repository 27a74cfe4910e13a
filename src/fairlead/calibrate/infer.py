"""Run a model as an inference engine does: `python -m fairlead.calibrate.infer MODEL.onnx --queries 100`.

The engine answers queries as fast as it can, or at a stated rate as behind a camera, and prints the latency
of a query as one line of JSON: as it was, and without the time in which other programs had the processor.
It uses as many threads as OMP_NUM_THREADS says, or every core.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Final

from fairlead.calibrate.job import TrialJob
from fairlead.calibrate.ort_runner import OrtRunner
from fairlead.calibrate.timing import Clocks, RunSample, time_step
from fairlead.errors import FairleadError

CLOCKS: Final = Clocks()
_WARM_UP: Final = 3
"""Queries that are not counted: memory is allocated in them."""


def main(argv: list[str] | None = None) -> int:
    """Run the model, and print what a query took."""
    options = _parser().parse_args(argv)
    threads = int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))
    name = os.path.basename(options.model)
    runner = OrtRunner(TrialJob(name, options.model, f"onnxruntime-{options.provider}", threads=threads))
    try:
        runner.load()
    except (FairleadError, RuntimeError, ValueError) as error:
        print(f"fairlead.calibrate.infer: {options.model}: {error}", file=sys.stderr)  # noqa: T201  # this is a program
        return 1
    answers = answer_queries(runner.step, options.queries, options.rate)
    latencies = [answer.wall for answer in answers]
    result = {
        "model": name,
        "queries": len(latencies),
        "threads": threads,
        "p50_seconds": round(median(latencies), 6),
        "p50_undisturbed_seconds": round(median(answer.seconds for answer in answers), 6),
        "p99_seconds": round(sorted(latencies)[int(0.99 * (len(latencies) - 1))], 6),
    }
    print(json.dumps(result), flush=True)  # noqa: T201  # this is a program
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fairlead.calibrate.infer", description=__doc__)
    parser.add_argument("model", metavar="MODEL", help="an ONNX file")
    parser.add_argument("--queries", metavar="N", type=int, default=100, help="default: %(default)s")
    parser.add_argument(
        "--rate", metavar="N", type=float, default=0.0, help="queries a second; 0: all at once"
    )
    parser.add_argument("--provider", default="cpu", help="of ONNX Runtime: cpu, cuda, ... (default: cpu)")
    return parser


def answer_queries(
    step: Callable[[], object], queries: int, rate: float, clocks: Clocks = CLOCKS
) -> list[RunSample]:
    """Answer queries, and return what each took."""
    for _ in range(_WARM_UP):
        step()
    answers = []
    due = time.perf_counter()
    for _ in range(max(1, queries)):
        if rate:
            due += 1 / rate
            time.sleep(max(0.0, due - time.perf_counter()))
        answers.append(time_step(step, clocks))
    return answers


if __name__ == "__main__":
    sys.exit(main())
