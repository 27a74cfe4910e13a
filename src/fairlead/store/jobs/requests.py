"""Requests of feeders and workers: documents in, checked values out."""

import base64
import binascii
import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairlead.splitting.items import BytesAt
from fairlead.store.jobs.records import NewInput, OfferedFailure, OfferedResult
from fairlead.store.jobs.spec import SITES
from fairlead.store.paths import checked
from fairlead.store.refusal import RefusedError

MOST_INLINE: Final = 64 << 10
"""Bytes of a result that comes in the exchange; a larger one is uploaded before."""
_MOST_INPUTS: Final = 5000
_MOST_WAIT: Final = 30.0
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class WorkerExchange:
    """All that a worker says and asks in one request."""

    worker: str
    site: str
    slots: int
    has: BytesAt
    results: Sequence[OfferedResult]
    failures: Sequence[OfferedFailure]
    held: frozenset[int]
    want: bool
    wait: float


def parse_exchange(document: Mapping[str, Any]) -> WorkerExchange:
    """Check an exchange; RefusedError says what is wrong with it."""
    name = document.get("worker")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RefusedError(400, "worker: a name of at most 128 letters, digits, dots and hyphens")
    site = document.get("site", "device")
    if site not in SITES:
        raise RefusedError(400, f"site: one of {', '.join(SITES)}")
    try:
        has = BytesAt(document.get("has", "stored"))
    except ValueError:
        raise RefusedError(400, f"has: one of {', '.join(each.value for each in BytesAt)}") from None
    results = [_result(each) for each in _list(document, "results")]
    failures = [_failure(each) for each in _list(document, "failures")]
    held = [_number(each, "held") for each in _list(document, "held")]
    ended = {each.input for each in results} | {each.input for each in failures}
    return WorkerExchange(
        name,
        site,
        min(1024, max(1, _number(document.get("slots", 1), "slots"))),
        has,
        results,
        failures,
        frozenset(held) - ended,
        bool(document.get("want", False)),
        min(_MOST_WAIT, _seconds(document.get("wait", 0), "wait")),
    )


def parse_inputs(document: Mapping[str, Any]) -> tuple[list[NewInput], bool]:
    """Check the inputs of a feeder; return them, and whether no further one comes."""
    return [_input(each) for each in _list(document, "inputs")], bool(document.get("complete", False))


def parse_gone(document: Mapping[str, Any]) -> list[str]:
    """Return the paths of a feeder whose files cannot be read any more."""
    gone = _list(document, "gone")
    if not all(isinstance(each, str) for each in gone):
        raise RefusedError(400, "gone: a list of paths")
    return gone


def check_staged(result: OfferedResult, digest_of: Callable[[str], tuple[int, str] | None]) -> None:
    """Raise the refusal of a staged result whose upload is not there, or is another one."""
    found = digest_of(result.staged)
    if found is None:
        raise RefusedError(409, f"{result.staged}: this result was not uploaded: upload it, then hand it in")
    if found != (result.size, result.digest):
        raise RefusedError(409, f"{result.staged}: what was uploaded has another digest: upload it again")


def _input(value: Any) -> NewInput:
    item = _document(value, "inputs")
    path, digest, where = item.get("path"), item.get("digest"), item.get("where", "")
    if (
        not isinstance(path, str)
        or not path
        or path[0] == "/"
        or path[-1] == "/"
        or checked(f"/{path}") != f"/{path}"
    ):
        raise RefusedError(400, f"path: {path!r} is no path below the folder of the inputs")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise RefusedError(400, f"{path}: digest: SHA-256 in hexadecimal")
    if not isinstance(where, str) or (where and checked(where) != where):
        raise RefusedError(400, f"{path}: where: a path of the store")
    size = _number(item.get("size"), f"{path}: size")
    return NewInput(path, digest, size, bool(item.get("stored", False)), where)


def _result(value: Any) -> OfferedResult:
    item = _document(value, "results")
    digest, inline = item.get("digest"), item.get("inline")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise RefusedError(400, "results: digest: SHA-256 in hexadecimal")
    size = _number(item.get("size"), "results: size")
    interval = item.get("interval")
    staged = item.get("staged", "")
    if not isinstance(staged, str) or (staged and checked(staged) != staged):
        raise RefusedError(400, "results: staged: a path of the store")
    data = None if staged else _content(inline, size, digest)
    return OfferedResult(
        _number(item.get("input"), "results: input"),
        digest,
        size,
        _seconds(item.get("seconds", 0), "results: seconds"),
        None if interval is None else _seconds(interval, "results: interval"),
        data,
        staged,
    )


def _content(inline: Any, size: int, digest: str) -> bytes:
    if not isinstance(inline, str) or len(inline) > 2 * MOST_INLINE:
        raise RefusedError(400, f"results: inline: at most {MOST_INLINE} bytes in base64, or else staged")
    try:
        data = base64.b64decode(inline, validate=True)
    except (binascii.Error, ValueError):
        raise RefusedError(400, "results: inline: this is no base64") from None
    if len(data) != size or hashlib.sha256(data).hexdigest() != digest:
        raise RefusedError(
            400, "results: inline: the size or the digest of what arrived is not the stated one"
        )
    return data


def _failure(value: Any) -> OfferedFailure:
    item = _document(value, "failures")
    code = item.get("exit")
    error = str(item.get("error", ""))[:4000]
    return OfferedFailure(
        _number(item.get("input"), "failures: input"), code if isinstance(code, int) else None, error
    )


def _document(value: Any, key: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RefusedError(400, f"{key}: a list of documents")
    return value


def _list(document: Mapping[str, Any], key: str) -> list[Any]:
    value = document.get(key) or []
    if not isinstance(value, list) or len(value) > _MOST_INPUTS:
        raise RefusedError(400, f"{key}: a list of at most {_MOST_INPUTS}")
    return value


def _number(value: Any, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise RefusedError(400, f"{key}: a whole number of 0 or more")
    return value


def _seconds(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise RefusedError(400, f"{key}: a number of seconds")
    return float(value) if math.isfinite(value) else 0.0
