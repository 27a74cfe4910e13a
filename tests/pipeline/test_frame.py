"""Frame headers: what is packed comes back, and nonsense is refused in one line."""

import math
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.pipeline.frame import (
    DTYPES,
    HEADER_BYTES,
    MOST_HEADER,
    RECORD,
    Array,
    Frame,
    FrameError,
    FrameHeader,
    PartHeader,
    boottime,
    decode_header,
    encode_header,
)

IMAGE = PartHeader.of(np.zeros((4, 5, 3), np.uint8))
HEADER = FrameHeader(7, 41, 12.5, 13.5, 99, 2, (IMAGE,))


@st.composite
def parts(draw: st.DrawFn) -> PartHeader:
    """Draw a part with a dtype and shape of any kind."""
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    dimensions = 1 if dtype == RECORD else draw(st.integers(0, 8))
    shape = tuple(draw(st.lists(st.integers(0, 40), min_size=dimensions, max_size=dimensions)))
    return PartHeader(dtype, shape, math.prod(shape) * DTYPES[dtype].itemsize)


HEADERS = st.builds(
    FrameHeader,
    stream=st.integers(0, 2**32 - 1),
    sequence=st.integers(0, 2**64 - 1),
    captured=st.floats(allow_nan=False, allow_infinity=False),
    deadline=st.floats(allow_nan=False),
    trace=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2**32 - 1),
    parts=st.lists(parts(), max_size=8).map(tuple),
)


@given(HEADERS)
def test_a_header_comes_back_as_it_was(header: FrameHeader) -> None:
    packed = encode_header(header)
    assert len(packed) <= MOST_HEADER
    assert decode_header(packed) == header
    assert decode_header(memoryview(bytearray(packed))) == header


def test_the_format_is_as_written_down() -> None:
    fixed = struct.pack("<4sIIIQddQH", b"FLF1", 96 + 22, 7, 2, 41, 12.5, 13.5, 99, 1).ljust(
        HEADER_BYTES, b"\0"
    )
    assert encode_header(HEADER) == fixed + struct.pack("<BB3IQ", 2, 3, 4, 5, 3, 60)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_by_a_frame_error(data: bytes) -> None:
    with pytest.raises(FrameError):
        decode_header(data)


@given(HEADERS, st.data())
def test_a_damaged_header_is_refused_or_is_another_header(header: FrameHeader, data: st.DataObject) -> None:
    packed = bytearray(encode_header(header))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = decode_header(packed)
    except FrameError:
        return
    assert encode_header(decoded) == packed


def part(dtype: int, shape: tuple[int, ...], nbytes: int) -> bytes:
    """Pack the entry of a part without any check."""
    return struct.pack(f"<BB{len(shape)}IQ", dtype, len(shape), *shape, nbytes)


def packed(*entries: bytes, count: int | None = None) -> bytes:
    """Pack a header with entries without any check."""
    body = b"".join(entries)
    number = len(entries) if count is None else count
    fixed = struct.pack("<4sIIIQddQH", b"FLF1", HEADER_BYTES + len(body), 0, 0, 0, 0.0, 0.0, 0, number)
    return fixed.ljust(HEADER_BYTES, b"\0") + body


GOOD = part(2, (4, 5), 20)
NONSENSE = {
    "95 bytes": packed()[:95],
    "4097 bytes": packed().ljust(MOST_HEADER + 1, b"\0"),
    "starts with b'HTTP'": b"HTTP" + packed()[4:],
    "says that it has 96": packed() + b"\0",
    "unused bytes": packed()[:95] + b"\1",
    "captured nan": packed()[:24] + struct.pack("<d", math.nan) + packed()[32:],
    "captured inf": packed()[:24] + struct.pack("<d", math.inf) + packed()[32:],
    "deadline nan": packed()[:32] + struct.pack("<d", math.nan) + packed()[40:],
    "ends inside part 1 of 2": packed(GOOD, count=2),
    "22 bytes follow": packed(GOOD, part(2, (4, 5, 1), 20), count=1),
    "unknown dtype code 0": packed(part(0, (4, 5), 20)),
    "unknown dtype code 13": packed(part(13, (4, 5), 20)),
    "9 dimensions": packed(struct.pack("<BB", 2, 9) + bytes(44)),
    "is 20 bytes, and the header says 19": packed(part(2, (4, 5), 19)),
    "is 80 bytes, and the header says 20": packed(part(11, (4, 5), 20)),
    "larger than any memory": packed(part(12, (2**32 - 1, 2**31), 2**63 - 2**31)),
    "(0, 4294967295, 4294967295) of uint8 is larger": packed(part(2, (0, 2**32 - 1, 2**32 - 1), 0)),
    "a record with 2 dimensions": packed(part(RECORD, (4, 5), 20)),
}


@pytest.mark.parametrize("fault", NONSENSE)
def test_nonsense_is_refused_and_named(fault: str) -> None:
    assert decode_header(packed(GOOD)).parts == (PartHeader(2, (4, 5), 20),)
    with pytest.raises(FrameError) as refused:
        decode_header(NONSENSE[fault])
    assert fault in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "header",
    [
        replace(HEADER, sequence=-1),
        replace(HEADER, sequence=2**64),
        replace(HEADER, stream=2**32),
        replace(HEADER, captured=math.nan),
        replace(HEADER, captured=math.inf),
        replace(HEADER, deadline=math.nan),
        replace(HEADER, parts=(IMAGE,) * 200),
        replace(HEADER, parts=(replace(IMAGE, nbytes=61),)),
        replace(HEADER, parts=(replace(IMAGE, shape=(-4, -5, 3)),)),
        replace(HEADER, parts=(PartHeader(2, (1,) * 9, 1),)),
    ],
)
def test_an_impossible_header_is_not_packed(header: FrameHeader) -> None:
    with pytest.raises(FrameError):
        encode_header(header)


@pytest.mark.parametrize("code", [code for code in DTYPES if code != RECORD])
def test_every_dtype_has_one_code(code: int) -> None:
    array = np.zeros((2, 3), DTYPES[code])
    assert PartHeader.of(array) == PartHeader(code, (2, 3), array.nbytes)


@pytest.mark.parametrize(
    "array", [np.zeros(2, complex), np.array(["a"]), np.zeros(2, ">f4"), np.zeros((1,) * 9, np.uint8)]
)
def test_what_no_frame_carries_is_named(array: Array) -> None:
    with pytest.raises(FrameError, match=r"dtype|dimensions"):
        PartHeader.of(array)


def test_a_frame_is_released_once() -> None:
    released: list[str] = []
    frame = Frame(HEADER, (np.zeros((4, 5, 3), np.uint8),), lambda: released.append("slot"))
    assert frame.buffers[0].shape == (4, 5, 3)
    frame.release()
    frame.release()
    assert released == ["slot"]
    assert frame.buffers == ()


def test_sizes_are_those_of_the_parts() -> None:
    header = replace(HEADER, parts=(IMAGE, PartHeader.of_record(17)))
    assert header.sizes == (60, 17)
    assert decode_header(encode_header(header)).parts[1].dtype == RECORD


def test_frames_are_stamped_with_a_clock_that_does_not_stop() -> None:
    first = boottime()
    assert boottime() >= first > 0
