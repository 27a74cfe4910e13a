"""The rules of a pool, as tables."""

import pytest

from fairlead.sharebench.pool import PoolState
from fairlead.sharebench.rules import ByMeasuredMemory, ByRequest, FixedNumber
from fairlead.sharebench.samples import GpuSample
from fairlead.sharebench.workload import ServingEngine
from fairlead.units import Bytes
from tests.sharebench.worlds import GIB, LARGE, SMALL, steady

A, B, C = (ServingEngine(name, SMALL) for name in "abc")
BIG = ServingEngine("big", LARGE)
REQUESTS = ByRequest({"small": Bytes(2 * GIB), "large": Bytes(8 * GIB)}, Bytes(10 * GIB))


def state(
    *running: ServingEngine, samples: list[GpuSample] | None = None, placed_at: float = 0.0
) -> PoolState:
    return PoolState(100.0, running, placed_at, samples or [])


@pytest.mark.parametrize(("running", "starts"), [((), True), ((A,), True), ((A, B), False)])
def test_a_fixed_number_at_once(running: tuple[ServingEngine, ...], starts: bool) -> None:
    assert FixedNumber(2).admits(C, state(*running)) is starts


@pytest.mark.parametrize(
    ("running", "engine", "starts"),
    [((), BIG, True), ((A,), BIG, True), ((A, B), BIG, False), ((BIG,), A, True), ((BIG, A), B, False)],
)
def test_requests_decide(running: tuple[ServingEngine, ...], engine: ServingEngine, starts: bool) -> None:
    assert REQUESTS.admits(engine, state(*running)) is starts


def test_measured_memory_decides_where_requests_do_not_fit() -> None:
    """8 GiB are requested and 1 GiB is used: after 20 samples the published rule grants the rest."""
    rule = ByMeasuredMemory(REQUESTS)
    used = steady(1 * GIB, 90.0, 100.0)
    assert rule.admits(BIG, state(BIG, samples=used, placed_at=90.0))
    assert not rule.admits(BIG, state(BIG, samples=used[-19:], placed_at=90.0)), "19 samples: one is missing"
    assert not rule.admits(BIG, state(BIG, samples=steady(3 * GIB, 90.0, 100.0), placed_at=90.0))
    assert not rule.admits(BIG, state(BIG)), "nothing is measured"


def test_the_authors_rest_is_shorter_by_the_factor_of_their_samples() -> None:
    assert (ByMeasuredMemory(REQUESTS).rest, REQUESTS.rest) == (1.0, 0.0)
