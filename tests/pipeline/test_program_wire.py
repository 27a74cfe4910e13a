"""The bytes between a stage and its program: however they are cut, and whatever they are."""

import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.pipeline.frame import Array, Frame, FrameError, FrameHeader, PartHeader
from fairlead.pipeline.ports import Image, tensor
from fairlead.pipeline.programs.wire import (
    CONTROL_STREAM,
    MOST_FRAMES,
    MOST_PAYLOAD,
    PROTOCOL,
    ControlKind,
    MessageReader,
    ProgramHello,
    ProgramMessage,
    end_views,
    error_text,
    hello_views,
    message_views,
    parse_hello,
)
from fairlead.pipeline.work.values import decode_value, decode_values, encode_value
from tests.pipeline.programs import faulty

VALUES = st.lists(
    st.sampled_from(
        [
            np.arange(6, dtype=np.float32).reshape(2, 3),
            np.zeros((0, 3), np.uint8),
            np.array(5, np.int64),
            np.array([True, False]),
            {"a": 1},
            {"name": "x", "boxes": np.arange(8, dtype=np.float64).reshape(2, 4), "scores": np.ones(2)},
            {},
        ]
    ),
    min_size=1,
    max_size=4,
)


def message(values: list[object], sequence: int) -> bytes:
    """Return the bytes of a frame with values."""
    encoded = [encode_value(value) for value in values]
    header = FrameHeader(
        3, sequence, 1.5, epoch=2, parts=tuple(part for parts, _ in encoded for part in parts)
    )
    return b"".join(message_views(header, [array for _, arrays in encoded for array in arrays]))


def read(data: bytes, cuts: list[int] | None = None) -> list[ProgramMessage]:
    """Return the messages in bytes that come in pieces of these lengths, in turn."""
    reader, found, at, turn = MessageReader(), [], 0, 0
    while at < len(data):
        place = reader.buffer()
        count = min(len(place), len(data) - at, cuts[turn % len(cuts)] if cuts else 10**9)
        place[:count] = data[at : at + count]
        at, turn = at + count, turn + 1
        if (complete := reader.advance(count)) is not None:
            found.append(complete)
    return found


def plain(value: object) -> object:
    """Return a value that can be compared."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return (value.dtype.name, value.shape, value.tolist()) if isinstance(value, np.ndarray) else value


@given(st.lists(VALUES, max_size=3), st.lists(st.integers(1, 200), min_size=1, max_size=5))
def test_messages_come_back_however_the_bytes_are_cut(frames: list[list[object]], cuts: list[int]) -> None:
    data = b"".join(message(values, number) for number, values in enumerate(frames))
    found = read(data, cuts)
    assert [each.header.sequence for each in found] == list(range(len(frames)))
    for values, each in zip(frames, found, strict=True):
        assert list(map(plain, decode_values(each.header.parts, each.arrays))) == list(map(plain, values))


@given(st.binary(min_size=4, max_size=400))
def test_any_bytes_are_refused_or_incomplete(data: bytes) -> None:
    with suppress(FrameError):
        assert all(len(each.arrays) == len(each.header.parts) for each in read(b"FLF1" + data))


@given(VALUES, st.data())
def test_a_damaged_message_is_refused_or_is_another_message(
    values: list[object], data: st.DataObject
) -> None:
    packed = bytearray(message(values, 1))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(FrameError):
        for each in read(bytes(packed)):
            decode_values(each.header.parts, each.arrays)


def test_text_is_refused_at_its_first_byte() -> None:
    reader = MessageReader()
    reader.buffer()[:1] = b"h"
    with pytest.raises(FrameError, match="sent b'h' where a frame header begins") as caught:
        reader.advance(1)
    assert "standard error" in caught.value.hint


def test_no_memory_is_taken_for_a_payload_that_is_too_large() -> None:
    header = FrameHeader(0, 0, 0.0, parts=(PartHeader(2, (MOST_PAYLOAD + 1,), MOST_PAYLOAD + 1),))
    with pytest.raises(FrameError, match=f"at most {MOST_PAYLOAD}"):
        read(bytes(message_views(header, ())[0]))


@pytest.mark.parametrize(
    ("body", "hello"),
    [
        ({}, ProgramHello()),
        ({"in": "Image", "out": "Tensor(float32, 1x?)", "frames": MOST_FRAMES, "color": 1}, None),
    ],
)
def test_a_hello_says_ports_and_frames(body: dict[str, object], hello: ProgramHello | None) -> None:
    (got,) = read(faulty.hello(body))
    assert parse_hello(got) == (hello or ProgramHello(Image, tensor("float32", (1, None)), MOST_FRAMES))


def test_what_a_program_receives_is_as_written_down() -> None:
    (got,) = read(b"".join(hello_views("conv", 2, 8)))
    assert (got.header.stream, got.header.sequence, got.header.epoch) == (CONTROL_STREAM, 1, PROTOCOL)
    assert json.loads(got.arrays[0].tobytes()) == {"stage": "conv", "inputs": 2, "frames": 8}
    (end,) = read(b"".join(end_views()))
    assert (end.control, end.arrays) == (ControlKind.END, ())


def test_an_error_is_one_line() -> None:
    (got,) = read(faulty.error("no\n weights\0 here"))
    assert got.control is ControlKind.ERROR
    assert error_text(got) == "no weights here"


def test_arrays_of_a_record_travel_as_arrays() -> None:
    boxes: Array = np.arange(8, dtype=np.float32).reshape(2, 4)
    parts, arrays = encode_value({"boxes": boxes, "n": np.int64(2), "deep": {"list": np.arange(2)}})
    value = decode_value(Frame(FrameHeader(0, 0, 0.0, parts=parts), arrays))
    assert value["boxes"] is boxes
    assert (value["n"], value["deep"]) == (2, {"list": [0, 1]})
    with pytest.raises(ValueError, match="reserved"):
        encode_value({"$arrays": []})
    with pytest.raises(FrameError, match="does not name the arrays"):
        decode_values((PartHeader.of_record(17),), (np.frombuffer(b'{"$arrays":["a"]}', np.uint8),))
