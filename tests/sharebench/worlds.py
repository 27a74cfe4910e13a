"""Small worlds: outcomes, samples and plans for tests."""

import sys
from pathlib import Path

from fairlead.sharebench.comparison import SharePlan
from fairlead.sharebench.events import EngineEvents
from fairlead.sharebench.outcome import EngineOutcome
from fairlead.sharebench.samples import GpuSample
from fairlead.sharebench.workload import CPU_KINDS, EngineCommand, ServingEngine, ServingKind, engines_of
from fairlead.units import Bytes

PLAYED = (sys.executable, str(Path(__file__).parent / "played_engine.py"))
GIB = 1 << 30
SMALL, LARGE = ServingKind("small", Bytes(GIB)), ServingKind("large", Bytes(4 * GIB))


def played_plan(engines: int, queries: int = 3, limit: float = 300.0) -> SharePlan:
    """Return a plan of played engines on the processor."""
    command = EngineCommand(queries, "cpu", PLAYED)
    return SharePlan(engines_of(CPU_KINDS, engines, 0), command, limit, None)


def outcome(
    kind: ServingKind, started: float, ended: float, latency: float = 0.01, digest: str = "same"
) -> EngineOutcome:
    """Return an engine that served a hundred queries of one latency."""
    latencies = (latency,) * 100
    events = EngineEvents(1, ready=started, done=ended, latencies=latencies, digest=digest)
    return EngineOutcome(ServingEngine(kind.name, kind), 0.0, started, ended, 0, pid=1, events=events)


def steady(memory: float, begin: float, end: float) -> list[GpuSample]:
    """Return samples of a GPU with steady memory, five a second."""
    count = round((end - begin) * 5)
    return [GpuSample(begin + number / 5, round(memory), 0.5, 100.0) for number in range(count)]
