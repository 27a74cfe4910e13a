"""Quantities: parsing of what people write, formatting, and refusal of anything else."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import units


@pytest.mark.parametrize(
    ("parse", "text", "amount"),
    [
        (units.parse_bytes, "1024", 1024),
        (units.parse_bytes, "8MiB", 8 * 2**20),
        (units.parse_bytes, "4Gi", 4 * 2**30),
        (units.parse_bytes, "512MB", 512 * 10**6),
        (units.parse_bytes, "1.5 TiB", 1.5 * 2**40),
        (units.parse_bytes, "2k", 2000),
        (units.parse_bandwidth, "25.6GB/s", 25.6e9),
        (units.parse_bandwidth, "4.8TB/s", 4.8e12),
        (units.parse_bitrate, "5Gb/s", 5e9),
        (units.parse_bitrate, "480 Mb/s", 480e6),
        (units.parse_duration, "500ms", 0.5),
        (units.parse_duration, "10s", 10),
        (units.parse_duration, "5m", 300),
        (units.parse_duration, "1h", 3600),
        (units.parse_duration, "2", 2),
    ],
)
def test_quantities_are_parsed(parse: Callable[[str], float], text: str, amount: float) -> None:
    assert parse(text) == pytest.approx(amount)


@pytest.mark.parametrize(
    ("parse", "text", "example"),
    [
        (units.parse_bytes, "", "4GiB"),
        (units.parse_bytes, "lots", "4GiB"),
        (units.parse_bytes, "-1", "4GiB"),
        (units.parse_bytes, "1e9", "4GiB"),
        (units.parse_bytes, "4 GiBps", "4GiB"),
        (units.parse_bytes, "4Xi", "4GiB"),
        (units.parse_bytes, "nan", "4GiB"),
        (units.parse_bandwidth, "25.6GiB/s", "25.6GB/s"),
        (units.parse_bandwidth, "25.6Gb/s", "25.6GB/s"),
        (units.parse_bitrate, "5GB/s", "5Gb/s"),
        (units.parse_duration, "1d", "10s"),
        (units.parse_duration, "soon", "10s"),
    ],
)
def test_an_invalid_quantity_is_refused_with_an_example(
    parse: Callable[[str], float], text: str, example: str
) -> None:
    with pytest.raises(ValueError, match=example):
        parse(text)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (units.format_bytes(0), "0 B"),
        (units.format_bytes(8 * 2**20), "8.0 MiB"),
        (units.format_bytes(1023), "1023 B"),
        (units.format_bytes(16 * 2**30), "16 GiB"),
        (units.format_bytes(3 * 2**40), "3.0 TiB"),
        (units.format_ops(26e12), "26 TOPS"),
        (units.format_ops(472e9), "472 GOPS"),
        (units.format_ops(1.979e15), "1.98 POPS"),
        (units.format_ops(5e6), "5 MOPS"),
        (units.format_ops(12), "12 OPS"),
        (units.format_bitrate(5e9), "5 Gb/s"),
        (units.format_bitrate(480e6), "480 Mb/s"),
    ],
)
def test_quantities_are_formatted(text: str, printed: str) -> None:
    assert text == printed


@given(st.text(max_size=30))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    for parse in (units.parse_bytes, units.parse_bandwidth, units.parse_bitrate, units.parse_duration):
        with suppress(ValueError):
            assert parse(text) >= 0


@given(st.integers(0, 2**60))
def test_printed_memory_reads_back_within_a_twentieth(amount: int) -> None:
    assert units.parse_bytes(units.format_bytes(amount)) == pytest.approx(amount, rel=0.06, abs=1)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2Gi", 2 << 30),
        ("1.5Gi", 3 << 29),
        ("15360Mi", 15360 << 20),
        ("100", 100),
        ("12E", 12 * 10**18),
        ("1e3", 1000),
        ("10e-1", 1),
        ("500m", 1),
        ("1500m", 2),
        ("1n", 1),
        ("0", 0),
    ],
)
def test_amounts_as_kubernetes_writes_them(text: str, amount: int) -> None:
    assert units.parse_quantity(text) == amount


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1GiB", "1e", "1e400", "0x10", "٣", "1" * 40])
def test_invalid_kubernetes_quantities(text: str) -> None:
    with pytest.raises(ValueError, match="4Gi"):
        units.parse_quantity(text)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (87_123.4, "87,123"),
        (999.7, "1,000"),
        (999.4, "999"),
        (37.51, "37.5"),
        (2.0, "2"),
        (0.4242, "0.424"),
        (0.0000123, "0.0000123"),
        (0, "0"),
    ],
)
def test_three_digits_are_printed_without_a_power_of_ten(number: float, text: str) -> None:
    assert units.format_number(number) == text


@given(st.floats(min_value=0, max_value=1e18))
def test_no_number_is_printed_with_an_exponent(number: float) -> None:
    assert "e" not in units.format_number(number)


def test_a_count_has_its_noun() -> None:
    assert [units.pluralize(number, "pod") for number in (0, 1, 2)] == ["0 pods", "1 pod", "2 pods"]
    assert units.pluralize(1, "entry", "entries") == "1 entry"
    assert units.pluralize(3, "entry", "entries") == "3 entries"
