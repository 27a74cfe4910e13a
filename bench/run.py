"""A queue of 60 mixed jobs through pueue and task-spooler at fixed parallelisms, and through fairlead.

All of them run in one memory cgroup where that is possible, so that too many large jobs at once fail here as
they would on an accelerator. Makespan: from the first submission to the end of the last job. Runs alternate,
and the medians of all rounds are compared: a virtual machine is not equally fast all the time. A fixed number
under which a job failed is shown, and does not compete.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.run_jobs import GIB, QueueJob, mixed_queue
from bench.run_peers import Fairlead, Pueue, QueuePeer, TaskSpooler

PARALLEL = (1, 2, 3, 4, 6, 8, 12, 16, 60)
SHORT = (4, 8, 12)
LIMIT = 8 * GIB
"""The memory of the cgroup."""
BAR = 1.03
OURS = ("fairlead", 0)


@dataclass(frozen=True)
class QueueRun:
    """One queue, run once."""

    peer: str
    parallel: int
    """0: not given."""
    makespan: float
    failed: int


def main() -> None:
    """Run every peer on every seed, and print the makespans."""
    options = _options()
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    peers: list[QueuePeer] = [Pueue(), TaskSpooler()]
    runs: dict[int, list[QueueRun]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-run-") as scratch, _memory_cgroup() as confined:
        print(
            f"memory: {LIMIT // GIB} GiB for all jobs together" if confined else "memory: the machine's own"
        )
        model = _write_model(Path(scratch))
        for seed in options.seeds:
            queue = mixed_queue(seed, options.jobs)
            runs[seed] = []
            for _ in range(options.rounds):
                for parallel in options.parallel:
                    runs[seed] += [_measure(peer, queue, parallel, scratch, model) for peer in peers]
                runs[seed].append(_measure(Fairlead(), queue, 0, scratch, model))
    sys.exit(_report(runs))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="three parallelisms, one seed")
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3, help="how often each queue is run by all")
    parser.add_argument("--seeds", type=int, nargs="+", default=None)
    parser.add_argument("--parallel", type=int, nargs="+", default=None)
    options = parser.parse_args()
    options.seeds = options.seeds or ([1] if options.short else [1, 2])
    options.parallel = options.parallel or (SHORT if options.short else PARALLEL)
    return options


def _measure(
    peer: QueuePeer, queue: Sequence[QueueJob], parallel: int, scratch: str, model: Path
) -> QueueRun:
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        log = Path(folder) / "ended"
        os.environ |= {"BENCH_RUN_LOG": str(log), "BENCH_RUN_MODEL": str(model)}
        began = time.clock_gettime(time.CLOCK_MONOTONIC)
        failed = peer.run(queue, parallel, Path(folder))
        ends = [float(line.split()[2]) for line in log.read_text().splitlines()]
        run = QueueRun(peer.name, parallel, max(ends) - began, max(failed, len(queue) - len(ends)))
    at = f" at {parallel}" if parallel else ""
    print(f"  {peer.name}{at}: {run.makespan:.1f} s, {run.failed} failed", flush=True)
    return run


def _report(runs: dict[int, list[QueueRun]]) -> int:
    """Print the figures beside the bar, and return the exit code."""
    missed = 0
    for seed, each in runs.items():
        rounds: dict[tuple[str, int], list[QueueRun]] = {}
        for run in each:
            rounds.setdefault((run.peer, run.parallel), []).append(run)
        medians = {key: median(run.makespan for run in same) for key, same in rounds.items()}
        failed = {key: sum(run.failed for run in same) for key, same in rounds.items()}
        whole = [key for key in medians if key != OURS and not failed[key]]
        best = min(whole, key=medians.__getitem__)
        ratio = medians[OURS] / medians[best]
        missed += ratio > BAR or failed[OURS] > 0
        print(
            f"queue {seed}, medians: fairlead {medians[OURS]:.1f} s, {failed[OURS]} failed; best peer "
            f"{best[0]} at {best[1]}: {medians[best]:.1f} s; ratio {ratio:.3f} (bar {BAR})"
        )
    return 1 if missed else 0


def _write_model(folder: Path) -> Path:
    command = [sys.executable, "-m", "fairlead.zoo", str(folder), "mobilenet_v1"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / "mobilenet_v1.onnx"


@contextmanager
def _memory_cgroup() -> Iterator[bool]:
    """Move this process and its children into a memory cgroup of its own, and out of it at the end."""
    group = _make_cgroup()
    if group is None:
        yield False
        return
    home = _own_cgroup(group)
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield True
    finally:
        (home / "cgroup.procs").write_text(str(os.getpid()))
        _remove_cgroup(group)


def _make_cgroup() -> Path | None:
    name = f"fairlead-bench-run-{os.getpid()}"
    for root, limit in (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
        group = Path(root) / name
        if not (Path(root) / "cgroup.procs").exists():  # a plain folder, above the cgroups of version 1
            continue
        try:
            group.mkdir()
            (group / limit).write_text(str(LIMIT))
        except OSError:
            if group.is_dir():
                group.rmdir()
            continue
        return group
    return None


def _remove_cgroup(group: Path) -> None:
    for _ in range(50):
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(0.1)  # a process of a queue is still ending


def _own_cgroup(group: Path) -> Path:
    """Return the cgroup of this process in the hierarchy of another one."""
    controller = "memory" if group.parent.name == "memory" else ""
    lines = (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
    path = next(path for _, controllers, path in lines if controller in controllers.split(","))
    return group.parent / path.lstrip("/")


if __name__ == "__main__":
    main()
