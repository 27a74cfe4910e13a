"""Time one plan of a machine's queue: 1,000 queued jobs of different sizes, 30 running ones, 4 GPUs.

Every waiting process decides for the whole queue, so a plan must be cheap. Three queues are timed: one in
which nothing fits, one in which jobs start until the machine is full, and one for cores alone. Exit code 1:
the median of one of them is above the bar.
"""

import argparse
import gc
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from fairlead.inventory import Accelerator, Machine, State
from fairlead.job import Assumed, JobKind, JobUse, LocalJob, LocalState
from fairlead.local.queue import plan_queue
from fairlead.local.view import DeviceView, MachineView
from fairlead.need import Need, NeedSource
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Seconds

GIB: Final = 1 << 30
MIB: Final = 1 << 20
BAR: Final = 0.020
"""Seconds of one core for one plan."""
NOW: Final = 5000.0
LEVELS: Final = 8
"""Sizes of a learned need."""


def machine(gpus: int, used: int = 0) -> MachineView:
    """Return a machine with 16 cores, 128 GiB and GPUs of 80 GiB."""
    devices = tuple(
        DeviceView(
            Accelerator(
                f"gpu-{at}", "a100", "A100", "nvidia", "gpu", State.HEALTHY, "", 1.0, ("a100",),
                f"pci:0000:0{at}:00.0", memory=Bytes(80 * GIB), shareable=True,
            ),
            memory_used=Bytes(used),
            busy=0.4,
        )
        for at in range(gpus)
    )  # fmt: skip
    return MachineView(NOW, Machine(cpus=16), devices, 16_000, 9_000, Bytes(128 * GIB), Bytes(80 * GIB))


def learned(chance: random.Random, peak: int) -> Need:
    """Return the need of a command that mostly holds less than its peak."""
    sizes = tuple(Bytes(peak * (LEVELS + at) // (2 * LEVELS)) for at in range(1, LEVELS + 1))
    weights = [chance.random() for _ in range(LEVELS)]
    return Need(sizes, tuple(one / sum(weights) for one in weights), source=NeedSource.HISTORY)


def job(number: int, chance: random.Random, size: int, gpus: int) -> LocalJob:
    """Return a queued job with a size of its own."""
    need = Need.fixed(Bytes(size)) if number % 2 else learned(chance, size)
    seconds = Seconds(chance.uniform(10, 4000)) if number % 3 else None
    assumed = Assumed(
        cpu=chance.choice((500, 1000, 4000)),
        memory=Bytes(chance.randrange(64, 2048) * MIB),
        gpus=gpus,
        need=need if gpus else None,
        seconds=seconds,
    )
    return LocalJob(
        f"{number:x}", number, f"train-{number}.py", 1000 + number % 5, f"user{number % 5}", JobKind.SUBMIT,
        LocalState.QUEUED, 0.0, NOW - chance.uniform(0, 900), "boot", assumed=assumed,
    )  # fmt: skip


def running(number: int, chance: random.Random, gpus: int, each: int) -> LocalJob:
    """Return a running job that holds a part of a GPU."""
    size = Bytes(each + chance.randrange(64) * MIB)
    queued = job(number, chance, size, gpus)
    shares = (DeviceShare(f"gpu-{number % 4}", size),) if gpus else ()
    held = {share.device: share.memory for share in shares}
    use = JobUse(NOW - 1, 300, Bytes(GIB), held, {}, Bytes(GIB), size, settled=bool(number % 2))
    return replace(
        queued,
        state=LocalState.RUNNING,
        shares=shares,
        measured=use,
        started_boot=NOW - chance.uniform(5, 500),
    )


def full(queued: int) -> tuple[MachineView, list[LocalJob]]:
    """Return GPUs on which no queued job fits."""
    chance = random.Random(1)
    jobs = [running(number, chance, 1, 8 * GIB) for number in range(30)]
    sizes = random.Random(2).sample(range(20 * 1024, 60 * 1024), queued)
    jobs += [job(30 + at, chance, size * MIB, 1) for at, size in enumerate(sizes)]
    return machine(4, 65 * GIB), jobs


def room(queued: int) -> tuple[MachineView, list[LocalJob]]:
    """Return GPUs with room for some jobs, so that jobs start and others pass the first blocked one."""
    chance = random.Random(3)
    jobs = [running(number, chance, 1, 4 * GIB) for number in range(30)]
    sizes = random.Random(4).sample(range(1024, 60 * 1024), queued)
    jobs += [job(30 + at, chance, size * MIB, 1) for at, size in enumerate(sizes)]
    return machine(4, 33 * GIB), jobs


def cores(queued: int) -> tuple[MachineView, list[LocalJob]]:
    """Return a queue for cores and RAM alone."""
    chance = random.Random(5)
    jobs = [running(number, chance, 0, GIB) for number in range(30)]
    jobs += [job(30 + at, chance, GIB, 0) for at in range(queued)]
    return machine(0), jobs


QUEUES: Final[dict[str, Callable[[int], tuple[MachineView, list[LocalJob]]]]] = {
    "full": full,
    "room": room,
    "cores": cores,
}


def main() -> None:
    """Time each queue, and hold the medians against the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    slow = False
    for name, make in QUEUES.items():
        view, jobs = make(options.jobs)
        plan = plan_queue(view, jobs)
        times = []
        for _ in range(options.rounds):
            gc.collect()
            began = time.process_time()
            plan_queue(view, jobs)
            times.append(time.process_time() - began)
        median = statistics.median(times)
        slow |= median > BAR
        print(
            f"{name}: {1000 * median:.1f} ms (best {1000 * min(times):.1f}) for {options.jobs} queued jobs, "
            f"{len(plan.starts)} start; bar {1000 * BAR:.0f} ms"
        )
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
