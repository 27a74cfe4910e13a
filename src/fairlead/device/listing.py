"""Listing of a folder in the store: WebDAV's PROPFIND, read."""

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import unquote, urlsplit

from fairlead.device.connection import StoreConnection
from fairlead.device.upload import NEW_INVITE, refused_credential
from fairlead.errors import DeviceError, TransferError

_DAV: Final = "{DAV:}"
_ASK: Final = (
    b'<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/>'
    b"<getlastmodified/></prop></propfind>"
)


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """A file or a folder in the store."""

    path: str
    """From the root of the store; a folder's ends with a slash."""
    size: int | None
    modified: float | None
    """Seconds since 1970."""


def list_folder(connection: StoreConnection, path: str, prefix: str = "") -> list[StoreEntry]:
    """Return what a folder holds, by name; of a file, itself. `prefix` is the path of the store's URL."""
    reply = connection.request(
        "PROPFIND", f"/{path}", {"Depth": "1", "Content-Type": "application/xml"}, _ASK
    )
    if reply.status == 401:
        raise DeviceError(refused_credential(reply.text), NEW_INVITE)
    if reply.status == 404:
        raise TransferError(
            f"{path or '/'}: the store has no such folder", "`fairlead device ls` lists its root"
        )
    if reply.status != 207:
        raise TransferError(f"{path or '/'}: the store answers {reply.status} {reply.text}".rstrip())
    entries = _parse(reply.body, prefix)
    below = [each for each in entries if each.path.strip("/") != path.strip("/") or each.size is not None]
    return sorted(below, key=lambda entry: entry.path)


def _parse(body: bytes, prefix: str) -> list[StoreEntry]:
    from xml.etree import ElementTree  # noqa: PLC0415  # the running agent does without it

    try:
        tree = ElementTree.fromstring(body)  # noqa: S314  # expat bounds entities, and the store is pinned
    except ElementTree.ParseError as error:
        raise TransferError(f"the store's listing cannot be read: {error}") from None
    entries = []
    for response in tree.iter(f"{_DAV}response"):
        href = unquote(urlsplit(response.findtext(f"{_DAV}href") or "").path)
        is_folder = response.find(f".//{_DAV}collection") is not None
        path = href.removeprefix(prefix).strip("/") + ("/" if is_folder else "")
        size = response.findtext(f".//{_DAV}getcontentlength") or ""
        entries.append(
            StoreEntry(
                path,
                int(size) if size.isdecimal() and not is_folder else None,
                _seconds(response.findtext(f".//{_DAV}getlastmodified")),
            )
        )
    return entries


def _seconds(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (TypeError, ValueError):
        return None
