"""Varints: an encoded number is decoded back, and a truncated or too long one is an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import varint


@given(st.integers(-(2**63), 2**64 - 1), st.binary(max_size=3))
def test_a_number_is_decoded_as_unsigned(number: int, after: bytes) -> None:
    written = varint.encode(number)
    assert varint.decode(b"x" + written + after, 1, 1 + len(written)) == (number % 2**64, 1 + len(written))


@given(st.integers(0, 2**64 - 1))
def test_a_truncated_number_is_an_error(number: int) -> None:
    written = varint.encode(number)
    for end in range(len(written)):
        with pytest.raises(ValueError, match="cut off"):
            varint.decode(written, 0, end)


def test_a_number_has_ten_bytes_at_most() -> None:
    assert varint.decode(b"\xff" * 9 + b"\x7f", 0, 10) == (2**64 - 1, 10)
    with pytest.raises(ValueError, match="longer than 64 bits"):
        varint.decode(b"\xff" * 10 + b"\x01", 0, 11)
