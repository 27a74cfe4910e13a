"""Footprints: what runs teach of an image, sample by sample, as tables by hand."""

import pytest

from fairlead.errors import NewerFormatError
from fairlead.series import Series
from fairlead.sizing.footprint import (
    CRASH_STEP,
    HALF_LIFE,
    MARGIN_HALF_LIFE,
    MOST_RAMP,
    SURPRISE_STEP,
    Footprint,
    FootprintBook,
)
from fairlead.sizing.footprint_format import FOOTPRINTS, footprints_text
from fairlead.sizing.grid import LEVELS, MOST_BINS, bounded, level
from fairlead.units import Bytes

GIB = 1 << 30
PERIOD = 15.0
IMAGE = "registry/app@sha256:1"
ENGINE = (1.0, 3.0, 6.0, 6.9, 6.88, 6.9, 6.9, 6.88)
"""GiB at each sample of an engine that grows for a minute."""


def play(
    book: FootprintBook,
    sizes: tuple[float, ...],
    uid: str = "a",
    start: float = 0.0,
    limit: Bytes | None = None,
    reserved: Bytes | None = None,
) -> float:
    """Observe a run at each of its samples; return the time of the last."""
    times = [start + PERIOD * (at + 1) for at in range(len(sizes))]
    values = [size * GIB for size in sizes]
    for at, now in enumerate(times, 1):
        book.observe(IMAGE, uid, Series(times[:at], values[:at]), start, limit, now, reserved=reserved)
    return times[-1]


def known(book: FootprintBook) -> Footprint:
    footprint = book.get(IMAGE)
    assert footprint is not None
    return footprint


def test_a_run_teaches_its_peak_its_ramp_and_its_steady_use() -> None:
    book = FootprintBook()
    end = play(book, ENGINE)
    assert (known(book).runs, known(book).sizes) == (0, ()), "the ramp may not be over"
    book.ended("a", crashed=False, now=end)
    footprint = known(book)
    assert footprint.full == round(6.9 * GIB)
    assert footprint.ramp == 60.0, "6.9 GiB at the fourth sample is the last growth of more than 5 %"
    assert (footprint.runs, footprint.samples, footprint.surprises) == (1, 8, 0)
    assert footprint.sizes == (LEVELS[level(6.9 * GIB)],)
    assert footprint.weights == (75.0,), "five samples from the end of the ramp on, 15 s each"
    assert footprint.least is None, "a run without a limit says nothing of the least size"
    book.ended("b", crashed=False, now=play(book, (5.0,) * 4, "b", 1000.0))
    book.ended("c", crashed=False, now=play(book, (2.0,) * 4, "c", 2000.0, Bytes(2 * GIB)))
    assert known(book).lowest == 5 * GIB, "the lowest peak without a limit"


def test_a_long_run_counts_without_its_end() -> None:
    book = FootprintBook()
    play(book, ENGINE + (6.8,) * int(MOST_RAMP / PERIOD))
    assert (known(book).runs, known(book).ramp) == (1, 60.0)


def test_a_run_that_is_met_late_teaches_no_ramp() -> None:
    book = FootprintBook()
    times = [7200.0 + PERIOD * at for at in range(60)]
    book.observe(IMAGE, "a", Series(times[:1], [5.0 * GIB]), 0.0, None, times[0])
    book.observe(IMAGE, "a", Series(times, [5.0 * GIB] * 60), 0.0, None, times[-1])
    assert (known(book).runs, known(book).ramp) == (1, 0.0)
    assert known(book).weights[0] > 59 * PERIOD - 1


def test_each_sample_counts_once() -> None:
    book = FootprintBook()
    end = play(book, ENGINE)
    play(book, ENGINE)
    book.ended("a", crashed=False, now=end)
    assert (known(book).samples, known(book).weights) == (8, (75.0,))


def test_a_loaded_book_does_not_count_what_was_counted_before() -> None:
    book = FootprintBook()
    end = play(book, ENGINE)
    loaded = FootprintBook(FOOTPRINTS.decode(footprints_text(book.footprints())))
    play(loaded, ENGINE)
    assert known(loaded).samples == 8
    loaded.observe(IMAGE, "a", Series([end + PERIOD], [7.0 * GIB]), 0.0, None, end + PERIOD)
    assert known(loaded).samples == 9


def test_a_shorter_ramp_shortens_slowly() -> None:
    book = FootprintBook()
    for uid, start, sizes in (("a", 0.0, ENGINE), ("b", 1000.0, (6.9,) * 8)):
        book.ended(uid, crashed=False, now=play(book, sizes, uid, start))
    assert known(book).ramp == pytest.approx(0.9 * 60 + 0.1 * 15)


def test_a_run_that_is_stopped_at_once_teaches_nothing() -> None:
    book = FootprintBook()
    book.ended("a", crashed=False, now=play(book, (0.5, 0.6), limit=Bytes(4 * GIB)))
    assert (known(book).runs, known(book).least) == (0, None)


def test_each_higher_peak_above_the_reserved_size_is_a_surprise_and_widens_the_margin() -> None:
    book = FootprintBook()
    play(book, (3.0, 3.5, 3.5, 3.4, 3.6), reserved=Bytes(3 * GIB))
    assert known(book).surprises == 2
    assert known(book).margin == pytest.approx(2 * SURPRISE_STEP, rel=0.01)


def test_without_a_reserved_size_earlier_runs_tell_what_is_a_surprise() -> None:
    book = FootprintBook()
    book.ended("a", crashed=False, now=play(book, ENGINE))
    play(book, (6.9, 6.9, 7.5), "b", 1000.0)
    assert known(book).surprises == 1


def test_the_margin_falls_by_half_in_a_day_of_clean_samples() -> None:
    book = FootprintBook([Footprint(IMAGE, None, Bytes(7 * GIB), 60.0, runs=3, margin=0.4)])
    book.observe(
        IMAGE,
        "a",
        Series([float(at) for at in range(MARGIN_HALF_LIFE + 1)], [6.0 * GIB] * (MARGIN_HALF_LIFE + 1)),
        0.0,
        None,
        float(MARGIN_HALF_LIFE),
    )
    assert known(book).margin == pytest.approx(0.2, abs=0.001)


def test_older_use_counts_half_after_a_week() -> None:
    book = FootprintBook([Footprint(IMAGE, None, Bytes(GIB), 0.0, (Bytes(GIB),), (100.0,), 1, updated=1.0)])
    start = HALF_LIFE + 1.0
    book.ended("a", crashed=False, now=play(book, (4.0,) * 4, start=start))
    assert dict(zip(known(book).sizes, known(book).weights, strict=True)) == {
        Bytes(GIB): pytest.approx(50.0, abs=0.1),
        Bytes(4 * GIB): pytest.approx(60.0, abs=0.1),
    }


def test_a_clean_end_under_a_limit_proves_the_least_size() -> None:
    book = FootprintBook()
    book.ended("a", crashed=False, now=play(book, (1.0, 3.0, 3.6, 3.6), limit=Bytes(4 * GIB)))
    assert known(book).least == round(3.6 * GIB)
    book.ended("b", crashed=False, now=play(book, (1.0, 4.0, 4.9, 4.9), "b", 100.0, Bytes(5 * GIB)))
    assert known(book).least == round(3.6 * GIB), "a run with more room proves no larger least size"
    assert known(book).sizes == (), "use under a limit is not what the workload takes when there is room"


def test_a_crash_raises_the_least_size_above_the_limit_and_widens_the_margin() -> None:
    book = FootprintBook()
    book.ended("a", crashed=False, now=play(book, ENGINE))
    book.ended("b", crashed=True, now=play(book, (1.0, 2.0), "b", 200.0, Bytes(2 * GIB)))
    footprint = known(book)
    assert footprint.least == round(2 * GIB * (1 + CRASH_STEP))
    assert footprint.margin == pytest.approx(CRASH_STEP, rel=0.01)
    assert (footprint.refused, footprint.surprises) == (2 * GIB, 1)
    book.ended("c", crashed=False, now=play(book, (1.0, 1.5, 1.9, 1.9), "c", 300.0, Bytes(3 * GIB)))
    assert known(book).least == footprint.least, "one lucky run does not undo a crash"


def test_a_crash_under_a_limit_near_the_full_size_asks_for_no_more_than_the_full_size() -> None:
    book = FootprintBook()
    book.ended("a", crashed=False, now=play(book, ENGINE))
    book.ended("b", crashed=True, now=play(book, (1.0, 6.0), "b", 200.0, Bytes(6 * GIB)))
    assert known(book).least == round(6.9 * GIB)


def test_stated_sizes_are_taken_and_a_measured_peak_stays() -> None:
    book = FootprintBook()
    book.state(IMAGE, least=Bytes(2 * GIB), full=Bytes(6 * GIB), ramp=30.0, now=1.0)
    footprint = known(book)
    assert (footprint.least, footprint.stated, footprint.ramp) == (2 * GIB, 6 * GIB, 30.0)
    play(book, ENGINE)
    book.state(IMAGE, full=Bytes(5 * GIB), now=200.0)
    assert known(book).full == round(6.9 * GIB)


def test_the_book_drops_the_least_recently_updated() -> None:
    book = FootprintBook(most=2)
    for now, key in enumerate(("old", "kept", "new"), 1):
        book.state(key, full=Bytes(GIB), now=float(now))
    assert [each.key for each in book.footprints()] == ["new", "kept"]
    book.state("x" * 600, full=Bytes(GIB), now=9.0)
    assert len(book) == 2, "a key of any length would not be bounded"


def test_the_text_is_bounded_and_keeps_the_most_recent() -> None:
    footprints = [Footprint(f"image-{at}", None, Bytes(GIB), 1.0, updated=100.0 - at) for at in range(50)]
    text = footprints_text(footprints, most=3000)
    kept = FOOTPRINTS.decode(text)
    assert len(text.encode()) <= 3000
    assert len(kept) >= 10
    assert kept == tuple(footprints[: len(kept)])


def test_the_text_of_a_newer_program_is_refused_and_a_broken_one_too() -> None:
    text = footprints_text([Footprint(IMAGE, None, Bytes(GIB), 1.0, (Bytes(GIB),), (1.0,))])
    with pytest.raises(NewerFormatError):
        FOOTPRINTS.decode(text.replace('"version":1', '"version":2'))
    for broken in (
        text.replace('"weights":[1.0]', '"weights":[]'),
        text.replace('"weights":[1.0]', '"weights":[NaN]'),
        text.replace('"weights":[1.0]', '"weights":["1"]'),
        text.replace('"full":1073741824', '"full":-1'),
    ):
        with pytest.raises(ValueError, match="no footprints"):
            FOOTPRINTS.decode(broken)


def test_a_histogram_has_at_most_32_bins_and_loses_no_weight() -> None:
    bins = bounded(dict.fromkeys(range(40), 1.0))
    assert len(bins) == MOST_BINS
    assert sum(bins.values()) == 40.0
    assert bins[40 - MOST_BINS] == 9.0, "the lowest bin that stays takes what is below it"
    assert min(bins) == 40 - MOST_BINS
    for size in (1.0, 17.0 * 2**20, 6.9 * GIB, 2.0**50):
        nearest = LEVELS[level(size)]
        if LEVELS[0] < size < LEVELS[-1]:
            assert nearest == pytest.approx(size, rel=0.023)
