"""A stage as a program, by the standard library alone: `faulty.py FAULT` does it with the frame 7.

It is written from docs/reference/pipeline-protocol.md, and imports nothing of fairlead.
"""

import json
import os
import signal
import struct
import sys
import time
from typing import BinaryIO

FIXED = struct.Struct("<4sIIIQddQH46x")
CONTROL = 2**32 - 1
HELLO, ERROR = 1, 2
Entry = tuple[int, tuple[int, ...], int]
Message = tuple[int, int, int, list[Entry], list[bytes]]


def receive(file: BinaryIO) -> Message | None:
    """Return stream, epoch, sequence, entries and payloads of the next message; None: the end."""
    fixed = file.read(FIXED.size)
    if not fixed:
        return None
    magic, length, stream, epoch, sequence, _, _, _, count = FIXED.unpack(fixed)
    assert magic == b"FLF1"
    table, at, entries = file.read(length - FIXED.size), 0, []
    for _ in range(count):
        dtype, dimensions = table[at], table[at + 1]
        *shape, size = struct.unpack_from(f"<{dimensions}IQ", table, at + 2)
        entries.append((dtype, tuple(shape), size))
        at += 10 + 4 * dimensions
    return stream, epoch, sequence, entries, [file.read(size) for _, _, size in entries]


def message(stream: int, epoch: int, sequence: int, *parts: tuple[int, tuple[int, ...], bytes]) -> bytes:
    """Return the bytes of a message."""
    table = b"".join(
        struct.pack(f"<BB{len(shape)}IQ", dtype, len(shape), *shape, len(data))
        for dtype, shape, data in parts
    )
    fixed = FIXED.pack(b"FLF1", FIXED.size + len(table), stream, epoch, sequence, 0, 0, 0, len(parts))
    return fixed + table + b"".join(data for _, _, data in parts)


def hello(body: object, version: int = 1) -> bytes:
    """Return a hello."""
    data = json.dumps(body).encode()
    return message(CONTROL, version, HELLO, (100, (len(data),), data))


def error(text: str) -> bytes:
    """Return an error message."""
    data = text.encode()
    return message(CONTROL, 0, ERROR, (2, (len(data),), data))


def main(fault: str) -> None:
    """Answer each frame with itself, except for the fault."""
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    before = {
        "text": b"Hello, world!\n",
        "version": hello({}, version=2),
        "frames": hello({"frames": 1000}),
        "port": hello({"out": "Imago"}),
        "refuses": error("no weights\nfound"),
        "no-json": message(CONTROL, 1, HELLO, (100, (2,), b"{[")),
        "frame-first": message(0, 0, 0),
    }
    if fault == "exits":
        sys.exit("cannot find the weights")
    if fault == "silent":
        time.sleep(600)
    stdout.write(before.get(fault, hello({"in": "Tensor(uint8)", "out": "Tensor(uint8)", "frames": 4})))
    stdout.flush()
    while (got := receive(stdin)) is not None:
        stream, epoch, sequence, entries, payloads = got
        if stream == CONTROL:
            continue
        parts = [(dtype, shape, data) for (dtype, shape, _), data in zip(entries, payloads, strict=True)]
        answer = message(stream, epoch, sequence, *(parts[:1] if fault == "first" else parts))
        if sequence == 7:
            print("seven", file=sys.stderr, flush=True)
            answer = at_seven(fault, answer, (stream, epoch, sequence))
        stdout.write(answer)
        stdout.flush()


def at_seven(fault: str, answer: bytes, key: tuple[int, int, int]) -> bytes:
    """Do what the fault says, or return what is sent for the frame 7."""
    if fault == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "blocks":
        time.sleep(600)
    if fault == "inside":
        sys.stdout.buffer.write(answer[:100])
        sys.stdout.buffer.flush()
        sys.exit(3)
    return {
        "nonsense": b"\x7fELF" + answer[4:],
        "length": answer[:4] + struct.pack("<I", 2**31) + answer[8:],
        "huge": message(*key, (2, (4, 2**31), b""))[:-8] + struct.pack("<Q", 2**33),
        "dtype": message(*key, (11, (1,), bytes(4))),
        "two": message(*key, (2, (1,), b"1"), (2, (1,), b"1")),
        "record": message(*key, (100, (2,), b"[]")),
        "order": message(key[0], key[1], 6),
        "error": error("the lens is dirty"),
        "filter": message(*key),
        "twice": answer + answer,
        "control": message(CONTROL, 0, 9),
    }.get(fault, answer)


if __name__ == "__main__":
    main(sys.argv[1])
