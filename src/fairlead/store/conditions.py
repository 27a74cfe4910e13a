"""Conditional requests (RFC 9110): ETags of files, If-Match and its kin, byte ranges. Pure."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

CONDITIONS: Final = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH", "HTTP_IF_UNMODIFIED_SINCE")
"""The headers that make a write conditional."""
_TAG: Final = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_RANGE: Final = re.compile(r"bytes=[ \t]*(\d{0,18})-(\d{0,18})[ \t]*")


@dataclass(frozen=True, slots=True)
class Version:
    """The state of a file that conditions are about."""

    etags: tuple[str, ...]
    """Every ETag that is valid for it, quoted; the first is the one that is sent."""
    modified: int
    """Unix seconds."""


def version_of(size: int, mtime_ns: int, inode: int, sha256: bytes | None) -> Version:
    """Return a file's version: by its content where its digest is known, else by inode, size and time.

    The second stays valid beside the first: a digest that becomes known changes nothing in the file.
    """
    by_stat = f'"{inode:x}-{size:x}-{mtime_ns:x}"'
    etags = (by_stat,) if sha256 is None else (f'"{sha256.hex()[:40]}"', by_stat)
    return Version(etags, mtime_ns // 1_000_000_000)


def failed_condition(headers: Mapping[str, str], version: Version | None, *, reading: bool) -> int | None:
    """Return the status of the first condition that does not hold, 412 or 304; None where all hold."""
    match, none_match = headers.get("HTTP_IF_MATCH"), headers.get("HTTP_IF_NONE_MATCH")
    if match is not None:
        if version is None or not _names(match, version.etags, weak=False):
            return 412
    elif version is not None:
        limit = _date(headers.get("HTTP_IF_UNMODIFIED_SINCE"))
        if limit is not None and version.modified > limit:
            return 412
    if none_match is not None:
        if version is not None and _names(none_match, version.etags, weak=True):
            return 304 if reading else 412
    elif reading and version is not None:
        since = _date(headers.get("HTTP_IF_MODIFIED_SINCE"))
        if since is not None and version.modified <= since:
            return 304
    return None


def wanted_range(headers: Mapping[str, str], version: Version, size: int) -> tuple[int, int] | None:
    """Return the first byte and the number of bytes to send; None: the whole file.

    ValueError where the range begins behind the end. Of several ranges none is served, as RFC 9110 allows.
    """
    match = _RANGE.fullmatch(headers.get("HTTP_RANGE", "").strip())
    if match is None or not (match[1] or match[2]) or not _if_range(headers.get("HTTP_IF_RANGE"), version):
        return None
    if not match[1]:
        length = min(int(match[2]), size)
        if not length:
            raise ValueError
        return size - length, length
    first = int(match[1])
    last = min(int(match[2]), size - 1) if match[2] else size - 1
    if match[2] and int(match[2]) < first:
        return None
    if first >= size:
        raise ValueError
    return first, last - first + 1


def _if_range(value: str | None, version: Version) -> bool:
    if value is None:
        return True
    value = value.strip()
    if value.startswith(("W/", '"')):
        return value in version.etags
    return _date(value) == version.modified


def _names(header: str, etags: Collection[str], *, weak: bool) -> bool:
    """Return whether a list of ETags names one of the file's; `weak` compares them without their mark."""
    if header.strip() == "*":
        return True
    tags = _TAG.findall(header)
    return any((tag.removeprefix("W/") if weak else tag) in etags for tag in tags)


def _date(value: str | None) -> int | None:
    """Return an HTTP date in Unix seconds; None where it is none."""
    try:
        return int(parsedate_to_datetime(value).timestamp()) if value else None
    except (ValueError, TypeError, OverflowError):
        return None
