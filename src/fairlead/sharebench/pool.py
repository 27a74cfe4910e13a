"""A pool of plain processes, without a queue: a rule says whether one more engine starts."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from fairlead.sharebench.outcome import EngineOutcome
from fairlead.sharebench.samples import GpuSample
from fairlead.sharebench.workload import ServingEngine

PASS: Final = 0.02
"""Seconds between two looks at the processes."""
_GRACE: Final = 10.0
"""Seconds between SIGTERM and SIGKILL for engines that have not ended in time."""
_LONGEST_REASON: Final = 300


@dataclass(frozen=True, slots=True)
class PoolState:
    """What a rule knows when it decides."""

    at: float
    running: tuple[ServingEngine, ...]
    placed_at: float
    """The time of the last start; 0 before the first."""
    samples: Sequence[GpuSample] = ()


class StartRule(Protocol):
    """Decides whether an engine starts now."""

    @property
    def every(self) -> float:
        """Seconds after a decision that started nothing until the next one."""

    @property
    def rest(self) -> float:
        """Seconds without a start after each one."""

    @property
    def largest_first(self) -> bool:
        """Whether the largest engine is tried first; otherwise they are in the order of arrival."""

    def size(self, engine: ServingEngine) -> float:
        """Return what orders the engines, where the largest is first."""

    def admits(self, engine: ServingEngine, state: PoolState) -> bool:
        """Return whether an engine starts beside those that run."""


@dataclass
class _Running:
    engine: ServingEngine
    started: float
    process: "subprocess.Popen[bytes]"
    errors: str


@dataclass
class EnginePool:
    """Starts engines as a rule says, and waits for all of them."""

    rule: StartRule
    words: Callable[[ServingEngine], Sequence[str]]
    variables: Mapping[str, str]
    folder: str
    samples: Callable[[], Sequence[GpuSample]] = field(default=lambda: ())

    def run(self, engines: Sequence[ServingEngine], seconds: float) -> list[EngineOutcome]:
        """Run all engines; those that have not ended after this time are killed."""
        os.makedirs(self.folder, exist_ok=True)
        began, limit = time.time(), time.monotonic() + seconds
        waiting = sorted(engines, key=self.rule.size, reverse=True) if self.rule.largest_first else [*engines]
        running: list[_Running] = []
        outcomes: dict[str, EngineOutcome] = {}
        placed_at = due = 0.0
        try:
            while (waiting or running) and time.monotonic() < limit:
                outcomes |= _reaped(running, began)
                now = time.time()
                engine = self._next(waiting, running, placed_at) if now >= due else None
                if engine is None:
                    due = due if now < due else now + self.rule.every
                    time.sleep(PASS)
                    continue
                waiting.remove(engine)
                placed_at, due = now, now + self.rule.rest
                running.append(self._start(engine, now))
        finally:
            outcomes |= _killed(running, began)
        late = {
            engine.name: EngineOutcome(engine, began, reason="it did not start in time") for engine in waiting
        }
        return [{**outcomes, **late}[engine.name] for engine in engines]

    def _next(
        self, waiting: Sequence[ServingEngine], running: Sequence[_Running], placed_at: float
    ) -> ServingEngine | None:
        state = PoolState(time.time(), tuple(each.engine for each in running), placed_at, self.samples())
        return next((engine for engine in waiting if self.rule.admits(engine, state)), None)

    def _start(self, engine: ServingEngine, now: float) -> _Running:
        errors = os.path.join(self.folder, f"{engine.name}.err")
        with open(errors, "wb") as stream:
            process = subprocess.Popen(  # noqa: S603 - the command of our caller
                [*self.words(engine)], env={**os.environ, **self.variables},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stream,
            )  # fmt: skip
        return _Running(engine, now, process, errors)


def _reaped(running: list[_Running], began: float) -> dict[str, EngineOutcome]:
    """Return the engines that have ended, and take them from the list."""
    ended = [each for each in running if each.process.poll() is not None]
    for each in ended:
        running.remove(each)
    return {each.engine.name: _outcome(each, began, time.time()) for each in ended}


def _killed(running: Sequence[_Running], began: float) -> dict[str, EngineOutcome]:
    """End engines that still run, and return them as failures."""
    for each in running:
        each.process.terminate()
    end = time.monotonic() + _GRACE
    for each in running:
        try:
            each.process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.process.kill()
            each.process.wait()
    return {each.engine.name: _outcome(each, began, None) for each in running}


def _outcome(each: _Running, began: float, ended: float | None) -> EngineOutcome:
    code = each.process.returncode
    reason = "" if code == 0 else _last_line(each.errors) if ended is not None else "it did not end in time"
    return EngineOutcome(each.engine, began, each.started, ended, code, reason, pid=each.process.pid)


def _last_line(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as stream:
        lines = [line.strip() for line in stream if line.strip()]
    return lines[-1][:_LONGEST_REASON] if lines else ""
