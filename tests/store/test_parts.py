"""Uploads in parts: they go on after a cut, and are verified as a whole."""

import base64
import hashlib
import os
import struct
from pathlib import Path

import pytest

from fairlead.store.parts import PartOfFile, parse_part
from fairlead.store.refusal import RefusedError
from fairlead.units import Bytes
from tests.store.stores import Answer, Store, store

DATA = os.urandom(100_000)
DIGEST = f"sha-256=:{base64.b64encode(hashlib.sha256(DATA).digest()).decode()}:"


def part(served: Store, first: int, last: int, path: str = "/f", digest: str = DIGEST) -> Answer:
    """Send a part of the data."""
    content_range = f"bytes {first}-{last}/{len(DATA)}"
    return served.ask("PUT", path, DATA[first : last + 1], Content_Range=content_range, Repr_Digest=digest)


def asked(served: Store, path: str = "/f") -> Answer:
    """Ask how much has arrived."""
    return served.ask("PUT", path, b"", Content_Range=f"bytes */{len(DATA)}", Repr_Digest=DIGEST)


def test_an_upload_goes_on_where_it_was_cut_and_over_a_restart(tmp_path: Path) -> None:
    with store(tmp_path, quota=Bytes(150_000)) as served:
        assert part(served, 0, 9_999).status == 202
        assert asked(served).headers["Upload-Offset"] == "10000"
        wrong = part(served, 5_000, 9_999)
        assert (wrong.status, wrong.headers["Upload-Offset"]) == (409, "10000")
        with served.connection() as client:
            lines = (
                f"Content-Range: bytes 10000-99999/{len(DATA)}",
                f"Repr-Digest: {DIGEST}",
                "Content-Length: 90000",
            )
            client.sendall(served.head("PUT", "/f", *lines) + DATA[10_000:50_000])
            client.setsockopt(1, 13, struct.pack("ii", 0, 0))
        while int(asked(served).headers.get("Upload-Offset", 0)) < 50_000:
            pass
        assert served.files() == {}
        assert served.ask("PUT", "/other", b"x" * 100_001).status == 507
    with store(tmp_path, quota=Bytes(150_000)) as served:
        assert served.ask("PUT", "/other", b"x" * 100_001).status == 507
        assert asked(served).headers["Upload-Offset"] == "50000"
        done = part(served, 50_000, 99_999)
        assert (done.status, done.headers["Repr-Digest"]) == (201, DIGEST)
        assert served.files() == {"f": DATA}
        assert served.staged() == []
        assert served.ask("PUT", "/other", b"x" * 50_000).status == 201


def test_a_wrong_digest_at_the_end_removes_the_upload(tmp_path: Path) -> None:
    with store(tmp_path) as served:
        served.ask("PUT", "/f", b"old")
        other = f"sha-256=:{base64.b64encode(bytes(32)).decode()}:"
        assert part(served, 0, 49_999, digest=other).status == 202
        assert part(served, 50_000, 99_999, digest=other).status == 400
        assert (served.files(), served.staged()) == ({"f": b"old"}, [])


def test_a_condition_holds_for_parts_as_well(tmp_path: Path) -> None:
    with store(tmp_path) as served:
        etag = served.ask("PUT", "/f", b"old").headers["ETag"]
        fields = {"Content_Range": f"bytes 0-99999/{len(DATA)}", "Repr_Digest": DIGEST}
        assert served.ask("PUT", "/f", DATA, If_None_Match="*", **fields).status == 412
        assert served.ask("PUT", "/f", DATA, If_Match=etag, **fields).status == 204


@pytest.mark.parametrize(
    ("header", "length", "status"),
    [
        ("bytes 0-4/10", None, 411),
        ("bytes 0-4/10", 6, 400),
        ("bytes 5-9/9", 5, 400),
        ("bytes 5-4/10", 0, 400),
        ("bytes 0-4/*", 5, 400),
        ("bytes */10", 1, 400),
        ("lines 0-4/10", 5, 400),
    ],
)
def test_a_range_that_does_not_fit_is_refused(header: str, length: int | None, status: int) -> None:
    with pytest.raises(RefusedError) as caught:
        parse_part(header, length)
    assert caught.value.status == status


def test_a_range_is_parsed() -> None:
    assert parse_part("bytes 5-9/10", 5) == PartOfFile(5, 5, 10)
    assert parse_part("bytes */10", 0) == PartOfFile(None, 0, 10)
