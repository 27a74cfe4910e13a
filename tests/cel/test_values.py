"""Quantities, versions and devices as selectors see them."""

from itertools import pairwise

import pytest

from fairlead.cel import CelDevice, EvaluationError, Quantity, SemanticVersion, compile_selector


@pytest.mark.parametrize(
    ("text", "value", "integer"),
    [
        ("4Gi", 4 << 30, 4 << 30),
        ("500m", 0.5, None),
        ("1e3", 1000, 1000),
        ("1.5", 1.5, None),
        ("2.0", 2, None),
        ("-1k", -1000, -1000),
        ("1.5Gi", 3 << 29, None),
        ("9223372036854775807", 2**63 - 1, None),
    ],
)
def test_valid_quantities(text: str, value: float, integer: int | None) -> None:
    quantity = Quantity.parse(text)
    assert quantity.approximate == pytest.approx(value)
    assert quantity.integer == integer


@pytest.mark.parametrize("text", ["", "Gi", "1Zi", "1 Gi", "1.2.3", "0x10", "1e99999", "9" * 300])
def test_invalid_quantities(text: str) -> None:
    if text == "Gi":
        assert Quantity.parse(text) == Quantity(0)  # as in Kubernetes
        return
    with pytest.raises(ValueError, match="quantit"):
        Quantity.parse(text)


def test_equal_quantities_are_one_key() -> None:
    assert len({Quantity.parse("1Ki"), Quantity.parse("1024"), Quantity.parse("1.024k")}) == 1
    assert sorted([Quantity.parse("1M"), Quantity.parse("1Ki")])[0] == Quantity(1024)


def test_versions_are_ordered_by_precedence() -> None:
    order = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0", "1.0.1", "2.0.0+b"]
    versions = [SemanticVersion.parse(text) for text in order]
    assert [one.compare(other) for one, other in pairwise(versions)] == [-1] * 6
    assert SemanticVersion.parse("1.0.0+a").compare(SemanticVersion.parse("1.0.0+b")) == 0
    assert str(versions[-1]) == "2.0.0+b"


@pytest.mark.parametrize(
    "text", ["", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.99999999999999999999"]
)
def test_invalid_versions(text: str) -> None:
    with pytest.raises(ValueError, match=r"[a-z]"):
        SemanticVersion.parse(text)


def test_a_device_of_a_slice() -> None:
    entry = {
        "name": "gpu-0",
        "attributes": {
            "cores": {"int": 8},
            "other.dev/model": {"string": "x"},
            "ok": {"bool": True},
            "v": {"version": "1.2.3"},
            "tags": {"strings": ["a"]},
        },
        "capacity": {"memory": {"value": "4Gi"}},
        "allowMultipleAllocations": True,
    }
    device = CelDevice.of("gpu.dev", entry)
    assert device.attributes["gpu.dev"] == {
        "cores": 8,
        "ok": True,
        "v": SemanticVersion(1, 2, 3),
        "tags": ("a",),
    }
    assert device.attributes["other.dev"] == {"model": "x"}
    assert device.capacity["gpu.dev"]["memory"] == Quantity(4 << 30)
    assert device.allow_multiple
    assert not device.fault


@pytest.mark.parametrize(
    "entry",
    [
        {"v": {"version": "x"}},
        {"v": {}},
        {"v": {"int": "1"}},
        {"v": {"int": True}},
        {"v": {"ints": 3}},
        {"v": 3},
    ],
)
def test_every_selector_fails_on_a_device_that_cannot_be_read(entry: dict[str, object]) -> None:
    with pytest.raises(EvaluationError, match="attribute v: "):
        compile_selector("true").matches(CelDevice.of("d", {"attributes": entry}))
