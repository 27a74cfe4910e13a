"""Uploads that are cut: at random points the old file stays, and a new one never shows."""

import os
import random
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.store.stores import Store, store

SIZE = 300_000
NEW = os.urandom(SIZE)
CUTS = 20


def whole(served: Store, path: str) -> bytes:
    """Return an upload with a length."""
    return served.head("PUT", path, f"Content-Length: {SIZE}") + NEW


def chunked(served: Store, path: str) -> bytes:
    """Return an upload in chunks of several sizes."""
    parts, offset = [served.head("PUT", path, "Transfer-Encoding: chunked")], 0
    for size in (1, 17, 4096, 100_000, SIZE):
        piece = NEW[offset : offset + size]
        parts.append(f"{len(piece):X};note=1\r\n".encode() + piece + b"\r\n")
        offset += len(piece)
    return b"".join((*parts, b"0\r\n", b"Trailer: x\r\n\r\n"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store for all cuts."""
    with store(tmp_path_factory.mktemp("cuts")) as running:
        yield running


@pytest.mark.parametrize("made", [whole, chunked])
@pytest.mark.parametrize("reset", [False, True])
def test_a_cut_upload_leaves_the_old_file_and_shows_no_new_one(
    served: Store, made: Callable[[Store, str], bytes], reset: bool
) -> None:
    dice = random.Random(f"{made.__name__} {reset}")
    served.ask("PUT", "/old", b"old")
    before = served.files()
    for path in ("/old", "/new"):
        data = made(served, path)
        first = data.index(b"\r\n\r\n") + 4
        # The last byte is missing at the latest; the first cut is within the head.
        for cut in (
            first - 1,
            first,
            *(dice.randrange(first, len(data)) for _ in range(CUTS - 3)),
            len(data) - 1,
        ):
            with served.connection() as client:
                client.sendall(data[:cut])
                if cut > first + 8000:
                    wait_for(lambda: bool(served.staged()))
                assert served.files() == before
                if reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wait_for(lambda: not served.staged())
            assert served.files() == before
        listed = served.ask("PROPFIND", "/", Depth="1").body
        assert b"/new<" not in listed
    assert served.ask("GET", "/old").body == b"old"


@pytest.mark.parametrize("made", [whole, chunked])
def test_what_was_cut_comes_whole_the_next_time(served: Store, made: Callable[[Store, str], bytes]) -> None:
    with served.connection() as client:
        client.sendall(made(served, f"/again-{made.__name__}"))
        assert client.recv(1000).startswith(b"HTTP/1.1 201 ")
    assert (served.root / f"again-{made.__name__}").read_bytes() == NEW


@pytest.mark.parametrize(
    "chunks",
    [
        b"5\r\nhello\r\n",
        b"5\r\nhelloX\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b" 5\r\nhello\r\n0\r\n\r\n",
        b"5\nhello\n0\n\n",
        b"\r\n0\r\n\r\n",
        b"ffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n0\r\nTrailer: x\r\n",
    ],
)
def test_malformed_chunks_are_no_file(served: Store, chunks: bytes) -> None:
    with served.connection() as client:
        client.sendall(served.head("PUT", "/malformed", "Transfer-Encoding: chunked") + chunks)
        client.shutdown(socket.SHUT_WR)
        assert b" 20" not in client.recv(1000)[:14]
    wait_for(lambda: not served.staged())
    assert not (served.root / "malformed").exists()


def test_a_store_removes_what_an_earlier_one_left(tmp_path: Path) -> None:
    own = tmp_path / "root" / ".fairlead"
    (own / "staging").mkdir(parents=True)
    (own / "staging" / "upload-1234").write_text("half")
    (own / "trash" / "5678").mkdir(parents=True)
    (own / "trash" / "5678" / "file").write_text("removed")
    with store(tmp_path) as served:
        assert (served.staged(), os.listdir(own / "trash"), served.files()) == ([], [], {})


def wait_for(happened: Callable[[], bool]) -> None:
    """Return once something has happened."""
    while not happened():
        pass
