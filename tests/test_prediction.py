"""Estimates: the fields are a contract, and the sort order is the one that people want."""

from fairlead.prediction import BASES, CONFIDENCES, Estimate, sort_key
from fairlead.units import Seconds

FIELDS = [
    "device",
    "model",
    "runtime",
    "precision",
    "batch",
    "runs",
    "fits",
    "needs",
    "reasons",
    "seconds",
    "p90_seconds",
    "memory_bytes",
    "available_bytes",
    "watts",
    "joules",
    "confidence",
    "basis",
    "meets_slo",
    "state",
    "scope",
    "doubt",
]


def test_the_fields_are_frozen() -> None:
    assert list(Estimate("t4", "m").to_json()) == FIELDS


def test_the_default_confidence_and_basis_are_known() -> None:
    assert Estimate("t4", "m").confidence in CONFIDENCES
    assert Estimate("t4", "m").basis in BASES


def test_estimates_that_run_and_fit_sort_first() -> None:
    slow = Estimate("slow", "m", seconds=Seconds(2.0))
    fast = Estimate("fast", "m", seconds=Seconds(1.0))
    full = Estimate("full", "m", fits=False, seconds=Seconds(0.1))
    never = Estimate("never", "m", runs=False)
    maybe = Estimate("maybe", "m", runs=None)
    assert sorted([never, full, maybe, slow, fast], key=sort_key) == [fast, slow, maybe, full, never]


def test_what_is_known_against_a_device_counts_more_than_what_is_not_known() -> None:
    states = [
        Estimate("t4", "m", runs=runs, fits=fits).state
        for runs in (True, None, False)
        for fits in (True, False)
    ]
    assert states == ["runs", "does not fit", "not known", "does not fit", "does not run", "does not run"]
    assert Estimate("t4", "m", runs=None).to_json()["runs"] is None


def test_good_is_runs_fits_and_in_time() -> None:
    assert Estimate("t4", "m").good
    assert Estimate("t4", "m", meets_slo=True).good
    assert not Estimate("t4", "m", meets_slo=False).good
    assert not Estimate("t4", "m", fits=False).good
    assert not Estimate("t4", "m", runs=False).good
    assert not Estimate("t4", "m", runs=None).good
