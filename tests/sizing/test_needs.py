"""The need of a pod, in each state of what is known of it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.need import Need, NeedSource, effective_size
from fairlead.series import Series, Staleness
from fairlead.sizing.footprint import MOST_RAMP, Footprint
from fairlead.sizing.needs import need_of, sample_bound
from fairlead.units import Bytes

GIB = 1 << 30
PERIOD = 15.0
REQUEST = Bytes(20 * GIB)
FULL = Bytes(8 * GIB)
KNOWN = Footprint("app:1", None, FULL, 60.0, (Bytes(6 * GIB), FULL), (30000.0, 6000.0), runs=9, samples=2400)
ELASTIC = replace(KNOWN, least=Bytes(3 * GIB))
FRESH = Staleness.FRESH


def use(*sizes: float, start: float = 0.0) -> Series:
    return Series(
        [start + PERIOD * (at + 1) for at in range(len(sizes))], [float(round(size * GIB)) for size in sizes]
    )


def running(
    sizes: tuple[float, ...],
    footprint: Footprint | None = KNOWN,
    staleness: Staleness = FRESH,
    limit: Bytes | None = None,
) -> Need:
    observed = use(*sizes)
    return need_of(REQUEST, footprint, observed, 0.0, PERIOD * len(sizes), staleness, limit=limit)


def pending(
    footprint: Footprint | None, requested: Bytes | None = REQUEST, limit: Bytes | None = None
) -> Need:
    return need_of(requested, footprint, Series(), None, 0.0, Staleness.MISSING, limit=limit)


STEADY = (6.0, 6.5) * 120


def test_a_pending_pod_without_history_counts_by_its_request_and_says_so() -> None:
    need = pending(None)
    assert (need.sizes, need.firm, need.source) == ((REQUEST,), False, NeedSource.REQUEST)
    assert need.note == "no history of its image: counted by its request"
    assert pending(None, limit=Bytes(5 * GIB)).firm, "a limit is enforced"


def test_a_first_run_that_still_grows_is_no_history() -> None:
    growing = Footprint("app:1", None, Bytes(GIB), 0.0, samples=2)
    assert pending(growing).sizes == (REQUEST,)
    assert need_of(REQUEST, growing, use(1.0), 0.0, 15.0, FRESH).sizes == (REQUEST,)


def test_an_elastic_pod_counts_by_its_least_size_with_the_margin_as_a_limit() -> None:
    need = pending(replace(ELASTIC, margin=0.1))
    assert (need.sizes, need.firm, need.source) == ((round(3 * GIB * 1.1),), True, NeedSource.HISTORY)
    assert pending(ELASTIC, limit=Bytes(2 * GIB)).peak == 2 * GIB, "never more than a hard limit"


def test_a_pending_pod_of_a_known_image_counts_by_its_peak_with_a_tail_up_to_the_request() -> None:
    need = pending(KNOWN)
    assert need.sizes == (FULL, *(round(FULL * excess) for excess in (1.1, 1.25, 1.5)))
    assert need.weights == pytest.approx((0.9, 0.06, 0.03, 0.01)), "one in ten of ten runs has a higher peak"
    assert pending(KNOWN, Bytes(9 * GIB)).peak == 9 * GIB, "nothing contradicts the request"
    assert pending(KNOWN, Bytes(2 * GIB)).peak == round(FULL * 1.5), "runs contradict it"
    assert pending(replace(KNOWN, runs=1)).sizes == (REQUEST,), "one run may have been a small one"


def test_an_image_with_many_runs_that_are_alike_is_expected_to_stay_so() -> None:
    alike = replace(KNOWN, lowest=FULL)
    parts = [1 + 2 / 9 * excess for excess in (0.1, 0.25, 0.5)]
    assert pending(alike).sizes == (FULL, *(round(FULL * part) for part in parts))
    assert pending(replace(alike, runs=2)).peak == round(FULL * 1.5), "two runs may be alike by chance"
    assert pending(replace(alike, lowest=Bytes(FULL * 9 // 10))).peak > pending(alike).peak
    assert running(STEADY, alike).peak < running(STEADY).peak


def test_a_stated_size_counts_until_a_run_is_known() -> None:
    need = pending(Footprint("model", None, FULL, 0.0, stated=FULL))
    assert (need.sizes, need.source) == ((FULL,), NeedSource.PROFILE)


@pytest.mark.parametrize("staleness", [Staleness.STALE, Staleness.MISSING])
def test_a_running_pod_without_fresh_use_counts_by_its_request(staleness: Staleness) -> None:
    need = running(STEADY, staleness=staleness)
    assert (need.sizes, need.firm, need.source) == ((REQUEST,), False, NeedSource.REQUEST)
    assert staleness.value in need.note


def test_a_pod_in_its_ramp_counts_by_the_peak_of_its_image() -> None:
    need = running((1.0, 2.0), replace(KNOWN, margin=0.25))
    assert (need.sizes[0], need.source) == (10 * GIB, NeedSource.HISTORY)
    assert running((1.0, 12.0)).sizes[0] == 12 * GIB, "never less than it holds"
    assert running((1.0, 2.0), None).sizes == (REQUEST,)
    assert len(running((6.0,) * int(MOST_RAMP / PERIOD - 1), None).sizes) == 1, "no history: the longest ramp"


def test_a_pod_with_a_limit_counts_by_it() -> None:
    assert running(STEADY, ELASTIC, limit=Bytes(7 * GIB)).sizes == (7 * GIB,)
    assert running(STEADY, ELASTIC, limit=Bytes(7 * GIB)).firm
    beyond = running(STEADY, ELASTIC, limit=Bytes(6 * GIB))
    assert (beyond.sizes, beyond.firm) == ((round(6.5 * GIB),), False), "the limit does not hold"


def test_after_the_ramp_what_was_observed_counts_with_a_tail() -> None:
    need = running(STEADY, None)
    assert need.source is NeedSource.OBSERVED
    assert need.sizes[0] == round(6.5 * GIB), "it holds 6.5 GiB: nothing below counts"
    assert need.sizes[1:] == tuple(round(round(6.5 * GIB) * excess) for excess in (1.1, 1.25, 1.5))
    seconds = 201 * PERIOD  # 240 samples, less those of the longest ramp
    tail = 3600.0 * 180.0 / seconds**2
    assert sum(need.weights[1:]) == pytest.approx(tail, rel=0.02)
    assert 6.5 * GIB < effective_size(need, 80 * GIB) < need.peak


def test_a_longer_history_has_a_lighter_tail_and_a_peak_far_above_the_median_a_shorter_one() -> None:
    assert running(STEADY).weights[-1] < running(STEADY, None).weights[-1] / 50
    spiky = running((*STEADY, 14.0, 6.0), None)
    assert spiky.peak == round(round(14.0 * GIB) * 1.1), "it has shown more than twice its median"


def test_the_margin_widens_what_was_observed() -> None:
    wide, plain = (running((*STEADY, 1.0), replace(KNOWN, margin=margin)) for margin in (0.5, 0.0))
    assert effective_size(wide, 80 * GIB) == pytest.approx(1.5 * effective_size(plain, 80 * GIB), rel=0.1)


def test_the_bound_of_a_sample_follows_from_that_of_a_placement() -> None:
    assert running(STEADY).bound == sample_bound(1e-3) == pytest.approx(1e-3)
    need = need_of(REQUEST, KNOWN, use(*STEADY), 0.0, 3600.0, FRESH, bound=1e-4)
    assert need.bound == pytest.approx(1e-4)
    assert effective_size(need, 80 * GIB) > effective_size(running(STEADY), 80 * GIB)


SIZES = st.floats(0.0, 90.0).map(lambda size: round(size, 3))
FOOTPRINT = st.builds(
    Footprint,
    key=st.just("app:1"),
    least=st.none() | SIZES.map(lambda size: Bytes(round(size * GIB))),
    full=SIZES.map(lambda size: Bytes(round(size * GIB))),
    ramp=st.floats(0.0, 600.0),
    runs=st.integers(0, 5),
    margin=st.floats(0.0, 1.0),
)


@given(
    sizes=st.lists(SIZES, min_size=1, max_size=80),
    footprint=st.none() | FOOTPRINT,
    requested=st.none() | SIZES.map(lambda size: Bytes(round(size * GIB))),
    limit=st.none() | SIZES.map(lambda size: Bytes(round(size * GIB))),
    staleness=st.sampled_from(Staleness),
    capacity=st.integers(8, 192).map(lambda size: size * GIB),
)
def test_a_need_counts_no_less_than_is_held_and_no_more_than_a_limit_that_holds(
    sizes: list[float],
    footprint: Footprint | None,
    requested: Bytes | None,
    limit: Bytes | None,
    staleness: Staleness,
    capacity: int,
) -> None:
    observed = use(*sizes)
    need = need_of(requested, footprint, observed, 0.0, PERIOD * len(sizes), staleness, limit=limit)
    held = round(sizes[-1] * GIB)
    counted = effective_size(need, capacity)
    mean = sum(size * weight for size, weight in zip(need.sizes, need.weights, strict=True))
    assert held - 2 <= counted <= need.peak
    assert counted >= mean - 2 - mean * 1e-9
    assert list(need.sizes) == sorted(set(need.sizes))
    assert sum(need.weights) == pytest.approx(1.0)
    if limit is not None and held <= limit:
        assert need.peak <= limit
    before = need_of(requested, footprint, Series(), None, 0.0, staleness, limit=limit)
    assert limit is None or before.peak <= limit
