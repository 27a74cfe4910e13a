"""PUT: a file under its name, whole and verified, or not at all."""

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from fairlead.store.conditions import CONDITIONS, failed_condition, version_of
from fairlead.store.contents import Contents
from fairlead.store.credentials import CredentialHolder
from fairlead.store.digests import field_of, parse_digests
from fairlead.store.jail import Entry, FileTarget
from fairlead.store.parts import PartialUploads, parse_part
from fairlead.store.reads import Answer
from fairlead.store.refusal import RefusedError
from fairlead.store.uploads import RequestBody, Staged


class Locks(Protocol):
    """WebDAV locks, which hold for PUT as well."""

    def writing(
        self, path: str, environ: dict[str, Any], holder: CredentialHolder, *, is_new: bool
    ) -> AbstractContextManager[None]:
        """Hold off locks of a path while the block writes it; `is_new`: nothing has the name yet."""


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
    with contents.jail.place(path) as place:
        target = WrittenFile(contents, path, place, environ)
        new = environ.get("HTTP_IF_NONE_MATCH", "").strip() == "*"
        with target.writing(locks, holder):
            staged = contents.upload(path, place, body, expected, target.check, exclusive=new)
        return target.written(staged)


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
    with contents.jail.place(path) as place:
        target = WrittenFile(contents, path, place, environ)
        with target.writing(locks, holder):
            upload = parts.receive(path, part, expected, body)
            if not upload.is_complete:
                return Answer("202 Accepted", [upload.offset_header, ("Content-Length", "0")])
            return target.written(parts.finish(path, place, upload, expected, target.check))


@dataclass(slots=True)
class WrittenFile:
    """The file that a PUT makes or replaces."""

    contents: Contents
    path: str
    place: FileTarget
    environ: dict[str, Any]
    existed: bool = False
    """Whether there was a file when it was checked last."""

    @contextmanager
    def writing(self, locks: Locks, holder: CredentialHolder) -> Iterator[None]:
        """Hold off locks while the block writes the file; RefusedError where it must not be written."""
        entry = self.contents.jail.entry_at(self.place, self.place.status(), self.path)
        with locks.writing(self.path, self.environ, holder, is_new=entry is None):
            self._check(entry)
            yield

    def check(self, replaced: os.stat_result | None) -> None:
        """Raise the refusal of a file that must not be written, by the status of what has its name now."""
        self._check(self.contents.jail.entry_at(self.place, replaced, self.path))

    def _check(self, entry: Entry | None) -> None:
        if entry is not None and entry.is_folder:
            raise RefusedError(405, "this is a folder")
        self.existed = entry is not None
        if not any(name in self.environ for name in CONDITIONS):
            return
        version = self.contents.version(entry)
        failed = failed_condition(self.environ, version, reading=False)
        if failed is not None:
            headers = (("ETag", version.etags[0]),) if version else ()
            raise RefusedError(
                failed, "a condition does not hold: the file is another one, or exists already", headers
            )

    def written(self, staged: Staged) -> Answer:
        """Return the answer to an upload that has its name."""
        status, digest = staged.status, staged.digests["sha-256"]
        version = version_of(status.st_size, status.st_mtime_ns, status.st_ino, digest)
        headers = [("ETag", version.etags[0]), ("Repr-Digest", field_of(digest)), ("Content-Length", "0")]
        return Answer("204 No Content" if self.existed else "201 Created", headers)


def _check_request(path: str, environ: Mapping[str, Any]) -> None:
    if path.endswith("/"):
        raise RefusedError(405, "the name of a file has no slash at its end; MKCOL makes a folder")
    if environ.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise RefusedError(415, "encoded bodies are not decoded: send the file as it is")
