"""A download that resumes: ranges of one version of a file, its checksum, then one rename."""

import hashlib
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Final

from fairlead.device.connection import BLOCK, StoreConnection
from fairlead.device.digests import WANT, parse_repr_digest
from fairlead.device.files import sync_folder
from fairlead.device.queue import KnownFile
from fairlead.device.upload import NEW_INVITE, refused_credential
from fairlead.errors import DeviceError, OutputError, StoreUnavailableError, TransferError
from fairlead.outfile import is_disk_fault

_RANGE: Final = re.compile(r"bytes ([0-9]+)-([0-9]+)/([0-9]+|\*)")


@dataclass(frozen=True, slots=True)
class Download:
    """A file that was fetched."""

    file: KnownFile
    resumed: int
    """The bytes that were here already from an earlier try."""


def download(connection: StoreConnection, path: str, target: str) -> Download:
    """Fetch a file of the store; the target is replaced once the whole content is here and right.

    An interrupted download leaves a part beside the target; the next one of the same version goes on from it.
    """
    head = connection.request("HEAD", f"/{path}", WANT)
    _check(head.status, head.text, path)
    etag = head.headers.get("etag", "")
    if not etag:
        raise TransferError(f"{path}: the store states no version of it: is it a folder?")
    folder, name = os.path.split(os.path.abspath(target))
    part = os.path.join(folder, f".{name}.{hashlib.sha256(etag.encode()).hexdigest()[:12]}.part")
    try:
        _remove_other_parts(folder, name, part)
        resumed = os.path.getsize(part) if os.path.isfile(part) else 0
        sha256, stated = _fetch(connection, path, part, etag, resumed)
        stated = stated or parse_repr_digest(head.headers.get("repr-digest", ""))
        if stated is not None and stated != sha256:
            os.unlink(part)
            raise TransferError(
                f"{path}: what arrived does not have the checksum that the store states", "fetch it again"
            )
        size = os.path.getsize(part)
        os.replace(part, os.path.join(folder, name))
        sync_folder(folder)
    except OSError as error:
        if is_disk_fault(error):
            raise OutputError(
                f"{target}: cannot be written: {error.strerror}", "make room: the next try goes on from there"
            ) from None
        raise DeviceError(f"{target}: cannot be written: {error.strerror or error}") from None
    return Download(KnownFile(path, etag, size, sha256), resumed)


def _fetch(
    connection: StoreConnection, path: str, part: str, etag: str, start: int
) -> tuple[str, str | None]:
    """Complete a part; return its checksum, and the one that the store states."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(part, flags, 0o600), "r+b") as file:
        digest = hashlib.sha256()
        while block := file.read(BLOCK):
            digest.update(block)
        headers = {**WANT, "If-Match": etag}
        if start:
            headers["Range"] = f"bytes={start}-"
        with connection.exchange("GET", f"/{path}", headers) as response:
            if response.status == 416:  # all of it was here already
                response.read()
            else:
                if response.status == 412:
                    raise StoreUnavailableError(
                        f"{path}: it was changed during the download", "fetch it again"
                    )
                _check(response.status, "", path)
                if response.status != 206 and start:
                    file.seek(0)
                    file.truncate()
                    digest = hashlib.sha256()
                elif response.status == 206:
                    _check_range(response, start, path)
                for block in connection.blocks(response):
                    file.write(block)
                    digest.update(block)
            stated = parse_repr_digest(response.getheader("Repr-Digest", ""))
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest(), stated


def _check_range(response: HTTPResponse, start: int, path: str) -> None:
    found = _RANGE.fullmatch(response.getheader("Content-Range", "").strip())
    if found is None or int(found[1]) != start:
        raise TransferError(f"{path}: the store sent another range than the one that was asked for")


def _check(status: int, text: str, path: str) -> None:
    if status == 401:
        raise DeviceError(refused_credential(text), NEW_INVITE)
    if status == 404:
        raise TransferError(f"{path}: the store has no such file", "`fairlead device ls` lists its files")
    if status in (429, 503):
        raise StoreUnavailableError(f"{path}: the store takes no requests now{f': {text}' if text else ''}")
    if status not in (200, 204, 206):
        raise TransferError(f"{path}: the store answers {status}{f': {text}' if text else ''}")


def _remove_other_parts(folder: str, name: str, keep: str) -> None:
    """Remove parts of other versions of the file."""
    pattern = re.compile(re.escape(f".{name}.") + r"[0-9a-f]{12}\.part")
    for each in os.listdir(folder):
        path = os.path.join(folder, each)
        if pattern.fullmatch(each) and path != keep:
            with suppress(OSError):
                os.unlink(path)
