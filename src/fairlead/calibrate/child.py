"""The program that runs one model: a job on stdin, an outcome on stdout.

It is started anew for every model and round. What goes wrong inside is an outcome with a reason; what ends
the process itself is seen by the one who started it.
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
    """What a process on the CPU takes."""

    def now(self) -> Bytes:
        """Return its memory now."""
        return process.memory("now")

    def most(self) -> Bytes:
        """Return the most that it ever had."""
        return process.memory("most")

    def joules(self) -> float | None:
        """Return nothing: what a CPU draws is not measured."""
        return None


class GpuGauge:
    """What a GPU holds beyond what it held at the beginning, and what it has drawn."""

    def __init__(self, session: nvml.Nvml, index: int) -> None:
        self._session = session
        self._index = index
        self._outside = self._used()

    def now(self) -> Bytes:
        """Return the memory in use now; runtimes keep what they once had, so it is also the most."""
        return Bytes(max(self._used() - self._outside, 0))

    most = now

    def joules(self) -> float | None:
        """Return the energy drawn since the driver was loaded."""
        reading = self._session.reading(self._index)
        return reading.energy_joules if reading else None

    def _used(self) -> int:
        reading = self._session.reading(self._index)
        return (reading.memory_used if reading else None) or 0


def measure(runner: Runner, job: TrialJob, gauge: HostGauge | GpuGauge) -> TrialOutcome:
    """Load a model, run it for a while, and return what that took."""
    base = gauge.now()
    runner.load()
    # Where another device computes, the CPU's queue matters little, and asking for it lets the device idle.
    clocks = Clocks(waited=dict) if job.gpu else Clocks()
    warm_up(runner.step, job.budget, clocks)
    before, began = gauge.joules(), time.perf_counter()
    samples = sample(runner.step, job.budget, clocks)
    after, took = gauge.joules(), time.perf_counter() - began
    watts = None if before is None or after is None else Watts((after - before) / took)
    return TrialOutcome(tuple(samples), runner.version, gauge.most(), base, watts)


def run_job(job: TrialJob) -> TrialOutcome:
    """Do a job; whatever a runtime raises is a reason."""
    try:
        with nvml.open_session() as session:
            gpus = session.gpus() if session and job.gpu else []
            index = next((gpu.index for gpu in gpus if gpu.uuid == job.gpu), None)
            gauge = HostGauge() if session is None or index is None else GpuGauge(session, index)
            return measure(RUNTIMES[job.runtime.partition("-")[0]](job), job, gauge)
    except Exception as error:  # noqa: BLE001 - runtimes raise what they like; all of it is an answer
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return TrialOutcome(reason=text[:_LONGEST_REASON])


def main() -> None:
    """Read a job, do it, and print the outcome as the last line."""
    print(run_job(TrialJob.of(sys.stdin.readline())).to_text(), flush=True)  # noqa: T201 - the pipe is the answer


if __name__ == "__main__":
    main()
