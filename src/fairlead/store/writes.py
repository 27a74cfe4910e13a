"""PUT: a file under its name, whole and verified, or not at all."""

import os
import stat
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from fairlead.store.conditions import Version, failed_condition, version_of
from fairlead.store.contents import Contents
from fairlead.store.credentials import CredentialHolder
from fairlead.store.digests import field_of, parse_digests
from fairlead.store.parts import PartialUploads, parse_part
from fairlead.store.reads import Answer
from fairlead.store.refusal import RefusedError
from fairlead.store.uploads import RequestBody


class Locks(Protocol):
    """WebDAV locks, which hold for PUT as well."""

    def writing(
        self, path: str, environ: dict[str, Any], holder: CredentialHolder
    ) -> AbstractContextManager[None]:
        """Hold off locks of a path while the block writes it."""


def write_file(
    contents: Contents,
    parts: PartialUploads,
    locks: Locks,
    path: str,
    environ: dict[str, Any],
    holder: CredentialHolder,
    body: RequestBody,
) -> Answer:
    """Answer PUT."""
    _check_request(path, environ)
    if "HTTP_CONTENT_RANGE" in environ:
        return _write_part(contents, parts, locks, path, environ, holder, body)
    expected = parse_digests(environ.get("HTTP_REPR_DIGEST", ""), environ.get("HTTP_CONTENT_DIGEST", ""))
    with contents.jail.place(path) as place, locks.writing(path, environ, holder):
        existed = check_conditions(contents, path, environ)

        def check() -> None:
            nonlocal existed
            existed = check_conditions(contents, path, environ)

        new = environ.get("HTTP_IF_NONE_MATCH", "").strip() == "*"
        status, staged = contents.upload(path, place, body, expected, check, exclusive=new)
        return written(status, staged.digests, existed=existed)


def _write_part(
    contents: Contents,
    parts: PartialUploads,
    locks: Locks,
    path: str,
    environ: dict[str, Any],
    holder: CredentialHolder,
    body: RequestBody,
) -> Answer:
    """Answer PUT of a part: with 202 and what has arrived, until all of it has."""
    expected = parse_digests(environ.get("HTTP_REPR_DIGEST", ""))
    part = parse_part(environ["HTTP_CONTENT_RANGE"], body.length)
    if "sha-256" not in expected.values:
        raise RefusedError(400, "a part of a file needs the Repr-Digest (sha-256) of the whole file")
    with contents.jail.place(path) as place, locks.writing(path, environ, holder):
        existed = check_conditions(contents, path, environ)
        upload = parts.receive(path, part, expected, body)
        if not upload.is_complete:
            return Answer("202 Accepted", [upload.offset_header, ("Content-Length", "0")])

        def check() -> None:
            nonlocal existed
            existed = check_conditions(contents, path, environ)

        status, digest = parts.finish(path, place, upload, expected, check)
        return written(status, {"sha-256": digest}, existed=existed)


def check_conditions(contents: Contents, path: str, environ: Mapping[str, Any]) -> bool:
    """Return whether the path has a file; RefusedError where it must not be written."""
    entry = contents.jail.entry(path)
    if entry is not None and entry.is_folder:
        raise RefusedError(405, "this is a folder")
    version: Version | None = contents.version(entry)
    failed = failed_condition(environ, version, reading=False)
    if failed is not None:
        headers = (("ETag", version.etags[0]),) if version else ()
        raise RefusedError(
            failed, "a condition does not hold: the file is another one, or exists already", headers
        )
    return entry is not None


def written(status: os.stat_result, digests: Mapping[str, bytes], *, existed: bool) -> Answer:
    """Return the answer to an upload that has its name."""
    assert stat.S_ISREG(status.st_mode), "only files are uploaded"
    version = version_of(status.st_size, status.st_mtime_ns, status.st_ino, digests["sha-256"])
    headers = [
        ("ETag", version.etags[0]), ("Repr-Digest", field_of(digests["sha-256"])), ("Content-Length", "0")
    ]  # fmt: skip
    return Answer("204 No Content" if existed else "201 Created", headers)


def _check_request(path: str, environ: Mapping[str, Any]) -> None:
    if path.endswith("/"):
        raise RefusedError(405, "the name of a file has no slash at its end; MKCOL makes a folder")
    if environ.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise RefusedError(415, "encoded bodies are not decoded: send the file as it is")
