"""PUT and GET: whole files, conditions, ranges, checksums."""

import base64
import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.stores import TOKEN, Store, store


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store that the tests of this file share; each uses names of its own."""
    with store(tmp_path_factory.mktemp("store")) as running:
        yield running


def digest_field(data: bytes) -> str:
    """Return the Repr-Digest of some bytes."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"


def test_a_file_comes_back_with_its_checksum(served: Store) -> None:
    made = served.ask("PUT", "/a%20file", b"hello")
    assert (made.status, made.headers["Repr-Digest"]) == (201, digest_field(b"hello"))
    assert (served.root / "a file").read_bytes() == b"hello"
    got = served.ask("GET", "/a%20file")
    assert (got.status, got.body) == (200, b"hello")
    assert got.headers["Repr-Digest"] == digest_field(b"hello")
    assert got.headers["ETag"] == made.headers["ETag"]
    assert served.ask("PUT", "/a%20file", b"again").status == 204
    head = served.ask("HEAD", "/a%20file")
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", "5")
    assert head.headers["Repr-Digest"] == digest_field(b"again")


def test_chunks_and_an_empty_file(served: Store) -> None:
    assert served.ask("PUT", "/chunks", iter([b"one, ", b"two, ", b"x" * 100_000])).status == 201
    assert (served.root / "chunks").read_bytes() == b"one, two, " + b"x" * 100_000
    assert served.ask("PUT", "/empty", b"").status == 201
    got = served.ask("GET", "/empty")
    assert (got.status, got.body, got.headers["Content-Length"]) == (200, b"", "0")


@pytest.mark.parametrize("name", ["Repr_Digest", "Content_Digest"])
def test_a_wrong_checksum_changes_nothing(served: Store, name: str) -> None:
    path = f"/checked-{name}"
    assert served.ask("PUT", path, b"old", **{name: digest_field(b"old")}).status == 201
    refused = served.ask("PUT", path, b"new", **{name: digest_field(b"other")})
    assert (refused.status, b"digest" in refused.body) == (400, True)
    assert (served.ask("GET", path).body, served.staged()) == (b"old", [])
    assert served.ask("PUT", path, b"new", **{name: "sha-256=:bm9uZQ==:"}).status == 400
    assert served.ask("PUT", path, b"new", **{name: "unixsum=:x:"}).status == 204


def test_sha_512_is_verified(served: Store) -> None:
    field = f"sha-512=:{base64.b64encode(hashlib.sha512(b'data').digest()).decode()}:"
    assert served.ask("PUT", "/sha512", b"data", Repr_Digest=field).status == 201
    assert served.ask("PUT", "/sha512", b"dato", Repr_Digest=field).status == 400


def test_conditions_protect_a_file(served: Store) -> None:
    assert served.ask("PUT", "/once", b"first", If_Match="*").status == 412
    assert not (served.root / "once").exists()
    first = served.ask("PUT", "/once", b"first", If_None_Match="*").headers["ETag"]
    assert served.ask("PUT", "/once", b"second", If_None_Match="*").status == 412
    assert served.ask("PUT", "/once", b"second", If_Match='"other"').status == 412
    second = served.ask("PUT", "/once", b"second", If_Match=f'"other", {first}')
    assert second.status == 204
    assert served.ask("PUT", "/once", b"third", If_Match=first).status == 412
    assert served.ask("GET", "/once").body == b"second"
    assert served.ask("GET", "/once", If_None_Match=second.headers["ETag"]).status == 304
    assert served.ask("GET", "/once", If_None_Match=f"W/{second.headers['ETag']}").status == 304
    assert served.ask("GET", "/once", If_Match=first).status == 412


def test_a_change_by_another_pod_changes_the_etag_and_drops_the_checksum(served: Store) -> None:
    etag = served.ask("PUT", "/shared", b"ours" * 1_000_000).headers["ETag"]
    (served.root / "shared").write_bytes(b"them" * 1_000_000)
    got = served.ask("HEAD", "/shared")
    assert got.headers["ETag"] != etag
    assert "Repr-Digest" not in got.headers
    assert served.ask("PUT", "/shared", b"x", If_Match=etag).status == 412
    wanted = served.ask("HEAD", "/shared", Want_Repr_Digest="sha-256=10")
    assert wanted.headers["Repr-Digest"] == digest_field(b"them" * 1_000_000)
    # The ETag that was sent without the checksum stays valid now that it is known.
    assert served.ask("PUT", "/shared", b"x", If_Match=got.headers["ETag"]).status == 204


def test_the_etag_of_a_file_that_another_pod_has_just_made_is_valid(served: Store) -> None:
    (served.root / "fresh").write_bytes(b"small")
    head = served.ask("HEAD", "/fresh")
    assert head.headers["Repr-Digest"] == digest_field(b"small")
    assert served.ask("PUT", "/fresh", b"new", If_Match=head.headers["ETag"]).status == 204


@pytest.mark.parametrize(
    ("header", "status", "body", "content_range"),
    [
        ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-2", 206, b"89", "bytes 8-9/10"),
        ("bytes=5-1000", 206, b"56789", "bytes 5-9/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=-0", 416, None, "bytes */10"),
        ("bytes=4-2", 200, b"0123456789", None),
        ("bytes=0-1,3-4", 200, b"0123456789", None),
        ("lines=0-1", 200, b"0123456789", None),
        ("bytes=9999999999999999999999-", 200, b"0123456789", None),
    ],
)
def test_ranges(
    served: Store, header: str, status: int, body: bytes | None, content_range: str | None
) -> None:
    served.ask("PUT", "/digits", b"0123456789")
    got = served.ask("GET", "/digits", Range=header)
    assert (got.status, got.headers.get("Content-Range")) == (status, content_range)
    assert body is None or got.body == body


def test_a_condition_holds_for_a_deletion_in_either_form_of_the_etag(served: Store) -> None:
    (served.root / "aged").write_bytes(b"aged")
    os.utime(served.root / "aged", (1, 1))
    by_stat = served.ask("HEAD", "/aged").headers["ETag"]
    assert served.ask("HEAD", "/aged").headers["ETag"] != by_stat
    assert served.ask("DELETE", "/aged", If_Match='"other"').status == 412
    assert served.ask("DELETE", "/aged", If_Match=by_stat).status == 204


def test_a_replaced_program_stays_executable(served: Store) -> None:
    served.ask("PUT", "/program", b"#!/bin/sh")
    (served.root / "program").chmod(0o755)
    assert served.ask("PUT", "/program", b"#!/bin/bash").status == 204
    assert (served.root / "program").stat().st_mode & 0o777 == 0o755


def test_a_range_resumes_the_same_file_alone(served: Store) -> None:
    etag = served.ask("PUT", "/resumed", b"0123456789").headers["ETag"]
    assert served.ask("GET", "/resumed", Range="bytes=5-", If_Range=etag).body == b"56789"
    served.ask("PUT", "/resumed", b"abcdefghij")
    assert served.ask("GET", "/resumed", Range="bytes=5-", If_Range=etag).body == b"abcdefghij"


def test_curl_resumes_a_download(served: Store, tmp_path: Path) -> None:
    data = os.urandom(300_000)
    served.ask("PUT", "/curled", data)
    (tmp_path / "part").write_bytes(data[:123_456])
    line = ("curl", "-sS", "-f", "-u", f"x:{TOKEN}", "-C", "-", "-o", str(tmp_path / "part"))
    subprocess.run((*line, f"{served.url}curled"), check=True)
    assert (tmp_path / "part").read_bytes() == data


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/missing", 404),
        ("GET", "/", 405),
        ("HEAD", "/", 405),
        ("PUT", "/", 405),
        ("PUT", "/missing/file", 409),
        ("PUT", "/folder/", 405),
        ("DELETE", "/", 403),
        ("POST", "/x", 405),
        ("TRACE", "/x", 405),
        ("BREW", "/x", 405),
    ],
)
def test_what_is_not_there_or_not_served(served: Store, method: str, path: str, status: int) -> None:
    assert served.ask(method, path, b"x" if method == "PUT" else None).status == status


def test_folders_are_made_listed_and_removed(served: Store) -> None:
    assert served.ask("MKCOL", "/tree").status == 201
    assert served.ask("MKCOL", "/tree/inner").status == 201
    assert served.ask("PUT", "/tree/inner/file", b"x").status == 201
    (served.root / "tree" / "by another pod").write_text("y")
    listed = served.ask("PROPFIND", "/tree", Depth="1").body
    assert b"<ns0:href>/tree/by%20another%20pod</ns0:href>" in listed
    assert served.ask("PROPFIND", "/tree", Depth="infinity").status == 403
    assert served.ask("PROPFIND", "/tree").status == 403
    assert served.ask("DELETE", "/tree").status == 204
    assert not (served.root / "tree").exists()
    assert os.listdir(served.root / ".fairlead" / "trash") == []


def test_a_move_or_a_copy_replaces_a_file_in_one_step(served: Store) -> None:
    served.ask("PUT", "/one", b"1")
    served.ask("PUT", "/two", b"2")
    assert served.ask("COPY", "/one", Destination=f"{served.url}two").status == 204
    assert (served.root / "two").read_bytes() == b"1"
    assert served.ask("MOVE", "/one", Destination=f"{served.url}two", Overwrite="F").status == 412
    assert served.ask("MOVE", "/one", Destination=f"{served.url}three").status == 201
    assert served.ask("MOVE", "/three", Destination=f"{served.url}two").status == 204
    assert (served.root / "two").read_bytes() == b"1"
    assert not (served.root / "one").exists()


def test_properties_outlive_the_process(tmp_path: Path) -> None:
    update = (
        '<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><c xmlns="urn:x">red</c></D:prop></D:set>'
        "</D:propertyupdate>"
    )
    find = '<D:propfind xmlns:D="DAV:"><D:prop><c xmlns="urn:x"/></D:prop></D:propfind>'
    with store(tmp_path) as first:
        first.ask("PUT", "/f", b"x")
        assert first.ask("PROPPATCH", "/f", update).status == 207
        first.ask("MKCOL", "/d")
        first.ask("MOVE", "/f", Destination=f"{first.url}d/g")
    with store(tmp_path) as second:
        assert b"red" in second.ask("PROPFIND", "/d/g", find, Depth="0").body
        second.ask("DELETE", "/d/g")
        second.ask("PUT", "/d/g", b"another")
        assert b"red" not in second.ask("PROPFIND", "/d/g", find, Depth="0").body
