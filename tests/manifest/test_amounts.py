"""Amounts: read exactly, or rejected with the place and a hint."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import ManifestError
from fairlead.manifest import amounts
from fairlead.units import Quantity, parse_quantity

GIB = 1 << 30
LARGEST = 1 << 62


@pytest.mark.parametrize(
    ("read", "value", "amount"),
    [
        (amounts.milli, "500m", 500),
        (amounts.milli, 1.5, 1500),
        (amounts.milli, 2, 2000),
        (amounts.milli, "0.0001", 1),
        (amounts.milli, "1e3", 1_000_000),
        (amounts.quantity, "64Gi", 64 * GIB),
        (amounts.quantity, "100m", 1),
        (amounts.quantity, 1e9, 10**9),
        (amounts.size, "4GiB", 4 * GIB),
        (amounts.size, "2GB", 2 * 10**9),
        (amounts.whole, "3", 3),
        (amounts.whole, 3.0, 3),
        (amounts.whole, "1k", 1000),
        (amounts.whole, "2000m", 2),
        (amounts.mebibytes, 2048, 2 * GIB),
        (amounts.seconds, "20ms", 0.02),
        (amounts.fraction, "0.5", 500),
        (amounts.fraction, "25%", 250),
        (amounts.fraction, 1, 1000),
    ],
)
def test_valid_amounts(read: Callable[[str, object], float], value: Any, amount: float) -> None:
    assert read("here", value) == amount


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (amounts.whole, "1.5", "'1.5' is not a whole number"),
        (amounts.whole, "500m", "'500m' is not a whole number"),
        (amounts.mebibytes, 0.5, "'0.5' is not a whole number"),
        (amounts.mebibytes, float("nan"), "nan is not an amount"),
        (amounts.mebibytes, "9" * 30, "is more than anything can have"),
        (amounts.milli, "-1", "-1 is negative"),
        (amounts.milli, -0.5, "-0.5 is negative"),
        (amounts.milli, "NaN", "'NaN' is not an amount"),
        (amounts.milli, "1e99", "is more than anything can have"),
        (amounts.quantity, "4 Gi", "'4 Gi' is not an amount"),
        (amounts.quantity, "Gi", "'Gi' is not an amount"),
        (amounts.quantity, None, "None is not an amount"),
        (amounts.quantity, True, "True is not an amount"),
        (amounts.quantity, [1], "is not an amount"),
        (amounts.size, "many", "is not an amount of memory"),
        (amounts.fraction, "1.5", "is more than 1, or 100%"),
        (amounts.fraction, "half", "'half' is not a fraction"),
        (amounts.seconds, "5 days", "is not a duration"),
        (amounts.seconds, "5d", "'5d' is not a duration"),
    ],
)
def test_invalid_amounts(read: Callable[[str, object], float], value: Any, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read("pods.yaml: Pod a: cpu", value)
    assert str(caught.value).startswith("pods.yaml: Pod a: cpu: ")
    assert message in str(caught.value)
    assert caught.value.hint
    assert "write" not in str(caught.value), "one hint is enough"


@given(st.integers(0, 10**15), st.sampled_from(["", "m", "k", "Ki", "M", "Mi", "u"]))
def test_thousandths_are_never_rounded_down(number: int, suffix: str) -> None:
    scale = {"": 1.0, "m": 1e-3, "k": 1e3, "Ki": 1024.0, "M": 1e6, "Mi": 1024.0**2, "u": 1e-6}[suffix]
    if number * scale * 1000 < 2**50:
        assert (
            number * scale * 1000 - 1e-3
            <= amounts.milli("x", f"{number}{suffix}")
            < number * scale * 1000 + 1
        )


@given(st.from_regex(r"[0-9]{1,12}(\.[0-9]{0,10})?([KMGTP]i|[numkMGTP]|[eE]-?[0-9])?", fullmatch=True))
def test_manifests_agents_and_selectors_read_one_amount(text: str) -> None:
    exact = Quantity.parse(text)
    whole = exact.rounded_up()
    assert Quantity(whole - 1) < exact <= Quantity(whole)
    assert parse_quantity(text) == whole
    assert whole > LARGEST or amounts.quantity("here", text) == whole
