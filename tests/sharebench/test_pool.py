"""The pool: real processes of played engines."""

from dataclasses import dataclass
from pathlib import Path

from fairlead.sharebench.events import read_events
from fairlead.sharebench.outcome import EngineOutcome, with_events
from fairlead.sharebench.pool import EnginePool, PoolState, StartRule
from fairlead.sharebench.rules import ByRequest, FixedNumber
from fairlead.sharebench.workload import EngineCommand, ServingEngine, engine_variables
from fairlead.units import Bytes
from tests.sharebench.worlds import LARGE, PLAYED, SMALL

ENGINES = (ServingEngine("a", SMALL), ServingEngine("b", LARGE), ServingEngine("c", SMALL))


def run(
    tmp_path: Path, rule: StartRule, *, limit: float = 300.0, queries: int = 3, **played: str
) -> list[EngineOutcome]:
    command = EngineCommand(queries, "cpu", PLAYED)
    out = tmp_path / "out"
    out.mkdir()
    variables = {**engine_variables(str(out)), **played}
    pool = EnginePool(rule, lambda engine: command.words(engine.kind), variables, str(tmp_path / "pool"))
    return with_events(pool.run(ENGINES, limit), read_events(str(out)))


@dataclass(frozen=True)
class One(FixedNumber):
    """One at once, and a record of what ran."""

    seen: tuple[list[int], ...] = ()

    def admits(self, engine: ServingEngine, state: PoolState) -> bool:
        """Note how many run."""
        self.seen[0].append(len(state.running))
        return super().admits(engine, state)


def test_engines_run_one_after_the_other_and_say_what_they_did(tmp_path: Path) -> None:
    seen: list[int] = []
    outcomes = run(tmp_path, One(1, seen=(seen,)))
    assert [each.engine.name for each in outcomes] == ["a", "b", "c"]
    assert [each.exit_code for each in outcomes] == [0, 0, 0]
    assert max(seen) == 1
    times = [(each.started or 0.0, each.ended or 0.0) for each in outcomes]
    assert times[0][1] <= times[1][0] <= times[1][1] <= times[2][0]
    a, b, c = (each.events for each in outcomes)
    assert a is not None
    assert b is not None
    assert c is not None
    assert a.digest == c.digest != b.digest, "the same network answers the same"
    assert [len(each.latencies) for each in (a, b, c)] == [3, 3, 3]


def test_the_largest_is_first_where_the_rule_says_so(tmp_path: Path) -> None:
    rule = ByRequest({"small": Bytes(1), "large": Bytes(2)}, Bytes(2))
    outcomes = {each.engine.name: each for each in run(tmp_path, rule)}
    assert (outcomes["b"].ended or 0.0) <= (outcomes["a"].started or 0.0)


def test_a_failure_has_its_exit_code_and_its_last_line(tmp_path: Path) -> None:
    outcomes = run(tmp_path, FixedNumber(3), PLAYED_FAILS="large")
    assert [(each.exit_code, each.failed) for each in outcomes] == [(0, False), (1, True), (0, False)]
    assert outcomes[1].reason == "RuntimeError: the played network fails"


def test_engines_that_do_not_end_in_time_are_ended(tmp_path: Path) -> None:
    outcomes = run(tmp_path, FixedNumber(2), limit=0.5, queries=10**6, PLAYED_SECONDS="0.1")
    assert [each.reason for each in outcomes] == [
        *("it did not end in time", "it did not end in time", "it did not start in time")
    ]
    assert [each.exit_code for each in outcomes] == [-15, -15, None]
    assert all(each.failed and each.ended is None for each in outcomes)
