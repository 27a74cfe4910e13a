"""The queue of `make bench-run`: 60 mixed jobs, and the program that each of them runs.

    cpu SECONDS        computes on one core
    onnx QUERIES       runs a small network with ONNX Runtime, on as many threads as it takes by itself
    wait SECONDS       sleeps, as a job does that waits for a device, a disk or a network
    memory SIZE HOLD   fills SIZE bytes, and holds them for HOLD seconds

Every job appends its number and exit to the file named by the variable BENCH_RUN_LOG when it ends.
"""

import os
import random
import sys
import time
from dataclasses import dataclass

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class QueueJob:
    """One job: its arguments for this program, and what the user would say of it."""

    number: int
    arguments: tuple[str, ...]
    memory: int = 0
    """RAM that the user states; 0: nothing stated."""

    def argv(self) -> list[str]:
        """Return the command."""
        isolated = [] if self.arguments[0] == "onnx" else ["-I", "-S"]
        return [sys.executable, *isolated, os.path.abspath(__file__), str(self.number), *self.arguments]


def mixed_queue(seed: int, jobs: int = 60) -> list[QueueJob]:
    """Return the jobs in the order of submission."""
    source = random.Random(seed)
    kinds = ["cpu"] * (jobs // 3) + ["wait"] * (jobs // 3) + ["memory"] * (jobs // 5)
    kinds += ["onnx"] * (jobs - len(kinds))
    source.shuffle(kinds)
    return [_job(number, kind, source) for number, kind in enumerate(kinds, 1)]


def _job(number: int, kind: str, source: random.Random) -> QueueJob:
    if kind == "cpu":
        return QueueJob(number, (kind, f"{min(6.0, source.lognormvariate(0.2, 0.7)):.2f}"))
    if kind == "wait":
        return QueueJob(number, (kind, f"{source.uniform(1.0, 5.0):.2f}"))
    if kind == "onnx":
        return QueueJob(number, (kind, str(source.randint(60, 240))))
    size = source.randrange(768, 2560, 64) * MIB
    hold = source.uniform(1.0, 4.0)
    return QueueJob(number, (kind, str(size), f"{hold:.2f}"), memory=size + 64 * MIB)


def _compute(seconds: float) -> None:
    """Use that much CPU time, however long it takes."""
    while time.process_time() < seconds:
        sum(range(20_000))


def _infer(queries: int) -> None:
    import numpy as np  # noqa: PLC0415  # the other jobs start without it
    import onnxruntime  # noqa: PLC0415

    session = onnxruntime.InferenceSession(os.environ["BENCH_RUN_MODEL"], providers=["CPUExecutionProvider"])
    inputs = session.get_inputs()[0]
    image = np.zeros([size if isinstance(size, int) else 1 for size in inputs.shape], np.float32)
    for _ in range(queries):
        session.run(None, {inputs.name: image})


def _hold(size: int, seconds: float) -> None:
    block = bytearray(size)
    for at in range(0, size, 4096):
        block[at] = 1
    time.sleep(seconds)


def main() -> None:
    """Run one job, and write down when it ended."""
    number, kind, *amounts = sys.argv[1:]
    began = time.clock_gettime(time.CLOCK_MONOTONIC)
    if kind == "cpu":
        _compute(float(amounts[0]))
    elif kind == "wait":
        time.sleep(float(amounts[0]))
    elif kind == "onnx":
        _infer(int(amounts[0]))
    else:
        _hold(int(amounts[0]), float(amounts[1]))
    ended = time.clock_gettime(time.CLOCK_MONOTONIC)
    with open(os.environ["BENCH_RUN_LOG"], "a", encoding="ascii") as log:
        log.write(f"{number} {began:.3f} {ended:.3f}\n")


if __name__ == "__main__":
    main()
