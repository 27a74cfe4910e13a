"""Non-negative least squares of the relative error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.estimate import nonnegative


def test_the_fit_recovers_the_true_coefficients() -> None:
    random = np.random.default_rng(0)
    design = np.column_stack([np.ones(20), random.lognormal(0, 1, (20, 3))])
    parts = np.array([0.5, 2.0, 0.0, 0.1])
    assert nonnegative.fit(design, design @ parts) == pytest.approx(parts, abs=1e-6)


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 6))
def test_the_fit_is_non_negative_and_optimal(seed: int, rows: int, columns: int) -> None:
    random = np.random.default_rng(seed)
    design, times = random.lognormal(0, 2, (rows, columns)), random.lognormal(0, 2, rows)
    parts = nonnegative.fit(design, times)
    assert (parts >= 0).all()
    scaled = design / times[:, None]
    slope = scaled.T @ (1 - scaled @ parts)  # the negative gradient of half the squared error
    assert (slope <= 1e-5 * np.linalg.norm(scaled, axis=0) * len(times)).all()
    assert np.abs(slope * parts).max() <= 1e-5 * len(times)


def test_zero_and_duplicate_columns_do_no_harm() -> None:
    design = np.column_stack([np.zeros(4), np.ones(4), np.ones(4)])
    parts = nonnegative.fit(design, np.full(4, 3.0))
    assert design @ parts == pytest.approx(3.0)


def test_a_held_out_time_does_not_change_its_own_prediction() -> None:
    design = np.column_stack([np.ones(6), np.arange(6.0)])
    times = 1 + np.arange(6.0)
    honest = nonnegative.held_out(design, times)
    assert honest == pytest.approx(np.log(times), abs=1e-6)
    for spoilt in range(6):
        changed = times.copy()
        changed[spoilt] *= 7
        assert nonnegative.held_out(design, changed)[spoilt] == pytest.approx(honest[spoilt])


def test_many_times_are_held_out_in_folds_and_a_single_one_by_itself() -> None:
    random = np.random.default_rng(1)
    design = np.column_stack([np.ones(90), random.lognormal(0, 1, 90)])
    assert nonnegative.held_out(design, design.sum(1)) == pytest.approx(np.log(design.sum(1)), abs=1e-6)
    assert nonnegative.held_out(design[:1], np.array([2.0])) == pytest.approx(np.log([2.0]))
    assert len(nonnegative.held_out(design[:0], np.zeros(0))) == 0


USUAL = np.array([1.0, 2.0, 3.0])


def test_coefficients_that_runs_leave_open_are_typical_at_the_level_of_the_runs() -> None:
    design = np.array([[1.0, 1.0, 0.0]])
    parts = nonnegative.fit_near(design, np.array([6.0]), USUAL, 0.05)
    assert parts == pytest.approx(2 * USUAL)


def test_runs_count_more_than_typical_coefficients() -> None:
    random = np.random.default_rng(1)
    design, true = random.lognormal(0, 1, (30, 3)), np.array([4.0, 0.5, 1.0])
    parts = nonnegative.fit_near(design, design @ true, USUAL, 0.05)
    assert parts == pytest.approx(true, rel=0.1)


@given(st.integers(0, 10_000), st.integers(1, 12), st.floats(0.001, 1))
def test_no_coefficient_is_zero(seed: int, rows: int, strength: float) -> None:
    random = np.random.default_rng(seed)
    parts = nonnegative.fit_near(
        random.lognormal(0, 2, (rows, 3)), random.lognormal(0, 2, rows), USUAL, strength
    )
    assert (parts > 0).all()


def test_a_row_of_zero_weight_does_not_count() -> None:
    design = np.array([[1.0], [1.0]])
    assert nonnegative.fit(design, np.array([2.0, 8.0]), np.array([1.0, 0.0])) == pytest.approx([2.0])
