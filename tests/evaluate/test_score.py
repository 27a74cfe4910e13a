"""Figures of merit agree with their definitions."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.evaluate.score import Accuracy, average, choose, judge, kendall, ranks, spearman

FEW = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=12)


def test_errors_are_percentages_of_what_was_measured() -> None:
    accuracy = judge(np.log([1.1, 2.0, 1.5]), np.log([1.0, 2.0, 1.0]))
    assert accuracy.mape == pytest.approx(20)
    assert accuracy.median_ape == pytest.approx(10)
    assert judge(np.log([1.09, 2.0]), np.log([1.0, 1.0])).within_10 == pytest.approx(50)


def test_without_values_there_are_no_figures() -> None:
    assert judge(np.array([np.nan]), np.array([1.0])) == Accuracy()
    assert average([]) == Accuracy()
    assert judge(np.array([1.0]), np.array([1.0])).spearman is None


def test_an_average_leaves_out_missing_figures() -> None:
    assert average([Accuracy(mape=1), Accuracy(), Accuracy(mape=3)]).mape == 2


def test_equal_values_share_their_rank() -> None:
    assert ranks(np.array([3.0, 1.0, 3.0])).tolist() == [2.5, 1, 2.5]


@given(FEW)
def test_kendall_counts_pairs(pairs: list[tuple[int, int]]) -> None:
    one, two = np.array(pairs, dtype=np.float64).T
    signs = [
        (np.sign(a - c), np.sign(b - d))
        for (a, b), (c, d) in itertools.combinations(zip(one, two, strict=True), 2)
    ]
    total = sum(left * right for left, right in signs)
    ties = [sum(abs(sign[side]) for sign in signs) for side in (0, 1)]
    tau = kendall(one, two)
    if min(ties) == 0:
        assert tau is None
    else:
        assert tau == pytest.approx(total / np.sqrt(ties[0] * ties[1]))


@given(FEW)
def test_orders_do_not_change_with_scale_and_turn_with_sign(pairs: list[tuple[int, int]]) -> None:
    one, two = np.array(pairs, dtype=np.float64).T
    for order in (spearman, kendall):
        correlation = order(one, two)
        if correlation is not None:
            assert -1.0000001 <= correlation <= 1.0000001
            assert order(3 * one + 1, two) == pytest.approx(correlation)
            assert order(-one, two) == pytest.approx(-correlation)


@pytest.mark.parametrize(("predicted", "right", "regret"), [((2, 1), True, 0), ((1, 2), False, 25)])
def test_a_choice_is_right_or_costs_its_regret(
    predicted: tuple[float, float], right: bool, regret: float
) -> None:
    choice = choose(np.log(predicted), np.log([5, 4]))
    assert choice[0] is right
    assert choice[1] == pytest.approx(regret)
