"""The machine of this process, as a place where stages are measured."""

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fairlead.pipeline.control import Message, stage_to_json
from fairlead.pipeline.place import THREADS
from fairlead.pipeline.profile.facts import LinkFacts, MachineFacts, StageCost
from fairlead.pipeline.programs.process import USER_PYTHONPATH
from fairlead.pipeline.spec import LOCAL, StageSpec

MOST_EDGE: Final = 1 << 26
"""Bytes of frames that are recorded of one stage: 24 frames of 720p."""
WARM: Final = 3
"""Values before the measured ones, if there are enough: they import, compile and reserve memory."""
_OPEN_LIMIT: Final = 120.0
"""Seconds that a stage may take to open, beside the time that it is measured."""
_CLIPPED: Final = 0.05
"""The part of calls at either end that count as the next ones: others on the machine delay a few."""
_SLOWER: Final = 3
"""A call that has begun in time may take so much longer."""


@dataclass(frozen=True, slots=True)
class MeasureRequest:
    """What is to be measured."""

    stage: StageSpec
    frames: int
    seconds: float
    """No call begins later."""
    stream: int = 0
    """Of a source: its number."""
    output_bytes: int = 0
    """How much of its output is recorded; 0: nothing."""

    def to_json(self) -> Message:
        """Return the order as the process that measures reads it, without its files."""
        return {
            "stage": stage_to_json(self.stage),
            "frames": self.frames,
            "seconds": self.seconds,
            "stream": self.stream,
            "output_bytes": self.output_bytes,
        }


@dataclass(frozen=True, slots=True)
class StageSample:
    """What was measured of a stage."""

    cost: StageCost | None
    """None: nothing reached it."""
    taken: int = 0
    made: int = 0
    problem: str = ""
    """Why it cannot run there; empty: it can."""


class ProfiledMachine(Protocol):
    """Where stages are measured."""

    facts: MachineFacts

    def measure(self, order: MeasureRequest, inputs: Sequence[str], output: str) -> StageSample:
        """Measure a stage with the frames of records, and record what it makes in `output` if it has a name.

        FairleadError where the machine cannot be reached any more.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReachedMachines:
    """The machines that stages are measured on, this one first, and what is between them."""

    machines: Mapping[str, ProfiledMachine]
    links: tuple[LinkFacts, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be reached."""


class ProfiledLocal:
    """The coordinator's own machine."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.facts = MachineFacts(LOCAL, *machine_size())

    def measure(self, order: MeasureRequest, inputs: Sequence[str], output: str) -> StageSample:
        """Measure a stage here."""
        return to_sample(measure_here(order.to_json(), self._folder, inputs, output))


def machine_size() -> tuple[int, int]:
    """Return the cores that this process may use, and the memory of this machine in bytes."""
    with open("/proc/meminfo", encoding="ascii") as file:
        match = re.search(r"^MemTotal:\s+([0-9]+) kB", file.read(), re.MULTILINE)
    return len(os.sched_getaffinity(0)), int(match[1]) << 10 if match else 0


def measure_here(
    order: Message,
    folder: str,
    inputs: Sequence[str],
    output: str,
    on_start: Callable[["subprocess.Popen[bytes]"], None] = lambda child: None,
) -> Message:
    """Run the process that measures a stage; its threads are those of a worker."""
    cores = order["stage"]["cores"]
    child = subprocess.Popen(
        [sys.executable, "-m", "fairlead.pipeline.profile.process"],
        env={
            **os.environ,
            **dict.fromkeys(THREADS, str(len(cores) or 1)),
            USER_PYTHONPATH: os.environ.get("PYTHONPATH", ""),
            "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    on_start(child)
    body = order | {"folder": folder, "inputs": list(inputs), "output": output}
    limit = _OPEN_LIMIT + _SLOWER * order["seconds"]
    try:
        answer, _ = child.communicate(json.dumps(body).encode(), limit)
        result: Any = json.loads(answer)
        return dict(result)
    except subprocess.TimeoutExpired:
        return {"problem": f"did not finish within {limit:.0f} s"}
    except ValueError:
        return {"problem": f"its process ended with exit code {child.wait()}"}
    finally:
        child.kill()
        child.wait()


def to_sample(result: Message) -> StageSample:
    """Return what the process that measures has answered."""
    if result["problem"]:
        return StageSample(None, problem=str(result["problem"]))
    seconds = [float(each) for each in result["seconds"]]
    cost = stage_cost(seconds, int(result["memory_bytes"]))
    return StageSample(cost, len(seconds) + int(result["failed"]), int(result["made"]))


def stage_cost(seconds: Sequence[float], memory_bytes: int) -> StageCost | None:
    """Return the mean and the spread, without the first values; None without any.

    Where a quota of CPU time stops a machine again and again, most calls are fast and some wait: their median
    says nothing of how many pass in a second.
    """
    if not seconds:
        return None
    ordered = sorted(seconds[min(WARM, len(seconds) // 2) :])
    low, high, least, most = (
        ordered[round(part * (len(ordered) - 1))] for part in (0.1, 0.9, _CLIPPED, 1 - _CLIPPED)
    )
    mean = statistics.fmean(min(max(each, least), most) for each in ordered)
    return StageCost(mean, high, memory_bytes, len(ordered), p10=low)
