"""Comparison: runs every arrangement, one after the other, and keeps the document up to date."""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Final

from fairlead.errors import FairleadError, UserError
from fairlead.nvml import Gpu
from fairlead.sharebench import arrangements as named
from fairlead.sharebench.arrangements import Arrangement, job_options
from fairlead.sharebench.events import EngineEvents, read_events
from fairlead.sharebench.figures import SoloRun, arrangement_figures, solo_run
from fairlead.sharebench.outcome import EngineOutcome, with_events
from fairlead.sharebench.pool import EnginePool, StartRule
from fairlead.sharebench.queue import LocalQueue
from fairlead.sharebench.rules import ByMeasuredMemory, ByRequest, FixedNumber
from fairlead.sharebench.sampler import Sampler
from fairlead.sharebench.workload import MIB, EngineCommand, ServingEngine, ServingKind, engine_variables
from fairlead.units import Bytes

_CONTEXT_MIB: Final = 1024
"""About what CUDA's context and a network take."""


@dataclass(frozen=True, slots=True)
class SharePlan:
    """What is compared."""

    engines: tuple[ServingEngine, ...]
    command: EngineCommand
    limit: float
    """Seconds that one arrangement may take."""
    gpu: Gpu | None
    """None: engines share the processor."""

    @property
    def kinds(self) -> tuple[ServingKind, ...]:
        """The kinds of the engines, the smallest first."""
        kinds = dict.fromkeys(engine.kind for engine in self.engines)
        return tuple(sorted(kinds, key=lambda kind: (kind.cache, kind.name)))

    @property
    def uuid(self) -> str:
        """The GPU's UUID; empty: none."""
        return self.gpu.uuid if self.gpu is not None else ""


class Comparison:
    """Runs arrangements in a folder of its own."""

    def __init__(self, plan: SharePlan, folder: str, report: Callable[[str], None]) -> None:
        self.plan = plan
        self.report = report
        self.solo: dict[str, SoloRun] = {}
        self._folder = folder
        self._out = os.path.join(folder, "out")
        self.variables = engine_variables(self._out)
        self._profile = LocalQueue(os.path.join(folder, "profile"), self.variables)
        self._queues = [self._profile]
        self._runs = 0

    def profile(self) -> dict[str, Any]:
        """Run one engine of each kind alone, in the queue that learns from it; return what was seen."""
        options = job_options(named.SAFE, named.PLAIN, self.plan.uuid)  # unknown: it gets a whole GPU
        with self.measured("profile") as sampler:
            for kind in self.plan.kinds:
                engine = ServingEngine(f"solo-{kind.name}", kind)
                (outcome,) = self.run_queued(self._profile, [engine], options)
                sampler.wait_until(time.time())
                run = solo_run(outcome, sampler.samples())
                if run is None:
                    why = outcome.reason or (outcome.events.error if outcome.events else "it wrote nothing")
                    raise UserError(
                        f"{kind.name}: the engine fails alone (exit code {outcome.exit_code}): {why}",
                        "run one engine by hand: python -m fairlead.sharebench.engine --network "
                        + kind.network,
                    )
                self.solo[kind.name] = run
                self.report(f"solo {kind.name}: {run.seconds:.1f} s, p99 {run.p99_ms:.2f} ms")
        return {name: run.to_json() for name, run in self.solo.items()}

    def run(self, arrangement: Arrangement) -> dict[str, Any]:
        """Run one arrangement and return its figures."""
        with self.measured(arrangement.name) as sampler:
            if arrangement.mode in named.QUEUED:
                outcomes = self._queued(arrangement)
            else:
                outcomes = self._pooled(arrangement, sampler)
            sampler.wait_until(time.time())
            figures = arrangement_figures(outcomes, sampler.samples(), self.solo, mps=arrangement.mps)
        failed = len(figures["failures"])
        self.report(f"{arrangement.name}: {figures['makespan_s']:.1f} s, {failed} failed")
        return {"mode": arrangement.mode, "limiter": arrangement.limiter, **figures}

    def measured(self, name: str) -> Sampler:
        """Return a sampler for one arrangement, and an empty folder for its engines."""
        self._runs += 1
        os.makedirs(self._out, exist_ok=True)
        for file in os.listdir(self._out):
            os.unlink(os.path.join(self._out, file))
        self.report(f"{name} ...")
        return Sampler(self.plan.gpu, os.path.join(self._folder, f"samples-{self._runs}.jsonl"))

    def new_queue(self, *, learned: bool) -> LocalQueue:
        """Return a queue of its own; with what the profiling run has taught, or without any history."""
        folder = os.path.join(self._folder, f"queue-{self._runs}")
        queue = self._profile.copy(folder) if learned else LocalQueue(folder, self.variables)
        self._queues.append(queue)
        return queue

    def close(self) -> None:
        """Cancel the jobs that still wait or run, after an interrupt."""
        for queue in self._queues:
            with suppress(FairleadError, OSError, subprocess.SubprocessError):
                queue.close()

    def run_queued(
        self, queue: LocalQueue, engines: Sequence[ServingEngine], options: Sequence[str]
    ) -> list[EngineOutcome]:
        """Submit engines with the same options, wait for all, and return what became of them."""
        jobs = [(engine, options, self.plan.command.words(engine.kind)) for engine in engines]
        return self.wait(queue, queue.submit(jobs))

    def wait(self, queue: LocalQueue, submitted: Sequence[EngineOutcome]) -> list[EngineOutcome]:
        """Wait for submitted engines, and return what became of them."""
        return with_events(queue.wait(submitted, self.plan.limit), self.events())

    def used_mib(self, kind: ServingKind) -> float:
        """Return the memory that an engine of a kind used alone; where it was not measured, about that."""
        return self.solo[kind.name].memory_mib or kind.cache / MIB + _CONTEXT_MIB

    def events(self) -> dict[int, EngineEvents]:
        """Return what the engines of the present arrangement have written so far, by their pids."""
        return read_events(self._out)

    def _queued(self, arrangement: Arrangement) -> list[EngineOutcome]:
        queue = self.new_queue(learned=arrangement.mode == named.SAFE)
        options = job_options(arrangement.mode, arrangement.limiter, self.plan.uuid)
        if arrangement.mode == named.EXCLUSIVE and not self.plan.uuid:
            options = (*options, "--cpus", str(len(os.sched_getaffinity(0))))
        return self.run_queued(queue, self.plan.engines, options)

    def _pooled(self, arrangement: Arrangement, sampler: Sampler) -> list[EngineOutcome]:
        with ExitStack() as stack:
            mps = stack.enter_context(self.service()) if arrangement.mps else {}
            visible = {"CUDA_VISIBLE_DEVICES": self.plan.uuid} if self.plan.uuid else {}
            folder = os.path.join(self._folder, f"pool-{self._runs}")
            pool = EnginePool(
                self._rule(arrangement.mode),
                lambda engine: self.plan.command.words(engine.kind),
                {**self.variables, **visible, **mps},
                folder,
                sampler.samples,
            )
            outcomes = pool.run(self.plan.engines, self.plan.limit)
        return with_events(outcomes, self.events())

    def service(self) -> AbstractContextManager[dict[str, str]]:
        """Return an MPS daemon for engines that no queue starts."""
        if not self.plan.uuid:
            return nullcontext({})
        from fairlead.sharebench.mps_service import mps_service  # noqa: PLC0415

        return mps_service(os.path.join(self._folder, f"mps-{self._runs}"), self.plan.uuid)

    def _rule(self, mode: str) -> StartRule:
        if mode in named.FIXED:
            return FixedNumber(named.FIXED[mode])
        memory = self.plan.gpu.memory if self.plan.gpu is not None else None
        by_request = ByRequest(self._requests(), memory or Bytes(_ram()))
        return by_request if mode == named.BY_REQUEST else ByMeasuredMemory(by_request)

    def _requests(self) -> dict[str, Bytes]:
        """Return what the published policies are told: twice what each kind used alone."""
        return {
            kind.name: Bytes(round(named.OVERPROVISION * self.used_mib(kind) * MIB))
            for kind in self.plan.kinds
        }


def _ram() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
