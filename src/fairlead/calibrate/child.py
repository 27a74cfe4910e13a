"""The program that runs one model: a job on stdin, an outcome on stdout.

A new process starts for every model and round. An error inside is an outcome with a reason; the parent
observes what ends the process itself.
"""

import sys
import time
from collections.abc import Callable
from typing import Final, Protocol

from fairlead import nvml
from fairlead.calibrate import process
from fairlead.calibrate.job import TrialJob, TrialOutcome
from fairlead.calibrate.timing import Clocks, sample, warm_up
from fairlead.units import Bytes, Watts

_LONGEST_REASON: Final = 300


class Runner(Protocol):
    """A runtime with one model."""

    version: str

    def load(self) -> None:
        """Load the model."""

    def step(self) -> None:
        """Run it once."""


def _ort(job: TrialJob) -> Runner:
    from fairlead.calibrate.ort_runner import OrtRunner  # noqa: PLC0415 - the other runtime may not be installed

    return OrtRunner(job)


def _torch(job: TrialJob) -> Runner:
    from fairlead.calibrate.torch_runner import TorchRunner  # noqa: PLC0415 - the other runtime may not be installed

    return TorchRunner(job)


RUNTIMES: Final[dict[str, Callable[[TrialJob], Runner]]] = {"onnxruntime": _ort, "torch": _torch}
"""By the first word of a runtime's name."""


class HostGauge:
    """The memory of a process on the CPU."""

    def memory(self) -> Bytes:
        """Return the memory in use now."""
        return process.memory("current")

    def peak_memory(self) -> Bytes:
        """Return the most memory ever in use."""
        return process.memory("peak")

    def joules(self) -> float | None:
        """Return None: the energy of a CPU is not measured."""
        return None


class GpuGauge:
    """The memory of a GPU beyond that in use at the start, and the energy it has drawn."""

    def __init__(self, session: nvml.Nvml, index: int) -> None:
        self._session = session
        self._index = index
        self._used_before = self._used()

    def memory(self) -> Bytes:
        """Return the memory in use now; runtimes keep what they once allocated, so it is also the peak."""
        return Bytes(max(self._used() - self._used_before, 0))

    peak_memory = memory

    def joules(self) -> float | None:
        """Return the energy drawn since the driver was loaded."""
        reading = self._session.reading(self._index)
        return reading.energy_joules if reading else None

    def _used(self) -> int:
        reading = self._session.reading(self._index)
        return (reading.memory_used if reading else None) or 0


def measure(runner: Runner, job: TrialJob, gauge: HostGauge | GpuGauge) -> TrialOutcome:
    """Load a model, run it for a while, and return its times, memory and power."""
    base = gauge.memory()
    runner.load()
    # Where another device computes, the CPU's queue matters little, and reading it lets the device idle.
    clocks = Clocks(waited=dict) if job.gpu else Clocks()
    warm_up(runner.step, job.budget, clocks)
    before, pressed, began = gauge.joules(), process.pressure(), time.perf_counter()
    samples = sample(runner.step, job.budget, clocks)
    after, pressed_after, took = gauge.joules(), process.pressure(), time.perf_counter() - began
    load = None if pressed is None or pressed_after is None else min(1.0, (pressed_after - pressed) / took)
    watts = None if before is None or after is None else Watts((after - before) / took)
    return TrialOutcome(tuple(samples), runner.version, gauge.peak_memory(), base, watts, load=load)


def run_job(job: TrialJob) -> TrialOutcome:
    """Run a job; any exception of a runtime becomes a reason."""
    try:
        with nvml.open_session() as session:
            gpus = session.gpus() if session and job.gpu else []
            index = next((gpu.index for gpu in gpus if gpu.uuid == job.gpu), None)
            gauge = HostGauge() if session is None or index is None else GpuGauge(session, index)
            return measure(RUNTIMES[job.runtime.partition("-")[0]](job), job, gauge)
    except Exception as error:  # noqa: BLE001 - runtimes raise exceptions of any class; each is an outcome
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return TrialOutcome(reason=text[:_LONGEST_REASON])


def main() -> None:
    """Read a job, run it, and print the outcome as the last line."""
    print(run_job(TrialJob.of(sys.stdin.readline())).to_text(), flush=True)  # noqa: T201 - the parent reads the pipe


if __name__ == "__main__":
    main()
