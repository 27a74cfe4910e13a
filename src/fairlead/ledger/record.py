"""The record of a job: the text that its owner writes and every user reads.

A reader trusts nothing in a record of another user: amounts, lengths and counts are bounded, and texts are
printable, so that no name can move a terminal's cursor. The owner is not part of the text: it is the owner of
the file. What equals its default is left out.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final, TypeVar

from fairlead.formats import JSON, Codec, VersionedFormat
from fairlead.job import (
    MOST_PRIORITY,
    Assumed,
    JobKind,
    JobUse,
    Limiter,
    LocalJob,
    LocalState,
    ProcessRef,
    Requested,
)
from fairlead.need import Need, NeedSource, need_problems
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Seconds

MOST_NUMBER: Final = 10**12
LONGEST_NAME: Final = 200
LONGEST_REASON: Final = 500
MOST_ENTRIES: Final = 256
"""Of any list or table in a record."""
UNOWNED: Final = -1
"""The uid of a decoded record before its reader adds the owner of the file."""
_MOST_AMOUNT: Final = 1 << 62
_LARGEST_REAL: Final = 1e15
_LARGEST_MOMENT: Final = 6e10
"""Seconds before and after the epoch that a calendar of four-digit years has: 69 to 3871."""

T = TypeVar("T")


def printable(text: str, longest: int = LONGEST_NAME) -> str:
    """Return a text as a record can carry it: spaces for white space, `?` for what is not printable."""
    text = text[:longest]
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else " " if mark.isspace() else "?" for mark in text)


def encode_job(job: LocalJob) -> dict[str, Any]:
    """Return the body of a job's record; texts that a record cannot carry are made printable."""
    body: dict[str, Any] = {
        "id": job.id,
        "number": job.number,
        "name": printable(job.name),
        "kind": job.kind.value,
        "state": job.state.value,
        "submitted": job.submitted,
        "submitted_boot": job.submitted_boot,
        "boot": job.boot,
    }
    rest = {
        "requested": _encode_requested(job.requested),
        "assumed": _encode_assumed(job.assumed),
        "priority": job.priority,
        "after": list(job.after),
        "timeout": job.timeout,
        "key": printable(job.key),
        "shares": [{**share.to_json(), "soft": share.soft} for share in job.shares],
        "runner": _encode_process(job.runner),
        "command": _encode_process(job.command),
        "measured": None if job.measured is None else _encode_use(job.measured),
        "started": job.started,
        "started_boot": job.started_boot,
        "ended": job.ended,
        "exit_code": job.exit_code,
        "reason": printable(job.reason, LONGEST_REASON),
    }
    return body | {name: value for name, value in rest.items() if not _is_default(value)}


def _is_default(value: object) -> bool:
    """Only these are left out: an exit code of 0 is not the same as none."""
    return value is None or value in ("", [], {})


def _encode_process(process: ProcessRef | None) -> list[Any] | None:
    return None if process is None else [process.pid, process.start, process.boot]


def _encode_requested(requested: Requested) -> dict[str, Any]:
    amounts = {
        "cpus": requested.cpus,
        "memory": requested.memory,
        "gpu_memory": requested.gpu_memory,
        "gpu_limit": requested.gpu_limit,
        "gpus": requested.gpus,
        "device": printable(requested.device),
        "model": printable(requested.model),
        "slo": requested.slo,
        "gpu_compute": requested.gpu_compute,
        "limiter": None if requested.limiter is Limiter.WATCHDOG else requested.limiter.value,
    }
    return {name: value for name, value in amounts.items() if not _is_default(value)}


def _encode_assumed(assumed: Assumed) -> dict[str, Any]:
    body: dict[str, Any] = {"cpu": assumed.cpu, "memory": assumed.memory, "gpus": assumed.gpus}
    rest = {
        "whole": assumed.whole or None,
        "need": None if assumed.need is None else _encode_need(assumed.need),
        "seconds": assumed.seconds,
        "firm_cpu": assumed.firm_cpu or None,
        "firm_memory": assumed.firm_memory or None,
        "default_memory": assumed.default_memory or None,
        "devices": dict(assumed.devices),
        "source": printable(assumed.source),
    }
    return body | {name: value for name, value in rest.items() if not _is_default(value)}


def _encode_need(need: Need) -> dict[str, Any]:
    return {
        "sizes": list(need.sizes),
        "weights": list(need.weights),
        "firm": need.firm,
        "source": need.source.value,
        "note": printable(need.note),
        "bound": need.bound,
    }


def _encode_use(use: JobUse) -> dict[str, Any]:
    return {
        "at": use.at,
        "cpu": use.cpu,
        "memory": use.memory,
        "gpu_memory": dict(use.gpu_memory),
        "gpu_busy": dict(use.gpu_busy),
        "peak_memory": use.peak_memory,
        "peak_gpu_memory": use.peak_gpu_memory,
        "settled": use.settled,
    }


def _whole(value: Any, most: int = _MOST_AMOUNT) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r:.40} is not a count")
    return value


def _bytes(value: Any) -> Bytes:
    return Bytes(_whole(value))


def _real(value: Any) -> float:
    if type(value) not in (int, float) or not -_LARGEST_REAL <= value <= _LARGEST_REAL:  # NaN is neither
        raise ValueError(f"{value!r:.40} is not a number")
    return float(value)


def _positive(value: Any) -> float:
    if (number := _real(value)) < 0:
        raise ValueError(f"{number:g} is less than 0")
    return number


def _seconds(value: Any) -> Seconds:
    return Seconds(_positive(value))


def _moment(value: Any) -> float:
    if abs(number := _real(value)) > _LARGEST_MOMENT:
        raise ValueError(f"{number:g} is not a time")
    return number


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError(f"{value!r:.40} is neither true nor false")
    return value


def _text(value: Any, longest: int = LONGEST_NAME) -> str:
    if type(value) is not str or len(value) > longest or not value.isprintable():
        raise ValueError(f"{value!r:.40} is not a short printable text")
    return value


def _listed(values: Any) -> list[Any]:
    if type(values) is not list or len(values) > MOST_ENTRIES:
        raise ValueError(f"{values!r:.40} is not a short list")
    return values


def _table(decode: Callable[[Any], T], values: Any) -> dict[str, T]:
    if type(values) is not dict or len(values) > MOST_ENTRIES:
        raise ValueError(f"{values!r:.40} is not a short table")
    return {_text(name): decode(value) for name, value in values.items()}


def _priority(value: Any) -> int:
    if type(value) is not int or abs(value) > MOST_PRIORITY:
        raise ValueError(f"{value!r:.40} is not a priority")
    return value


def _decode_process(body: Any) -> ProcessRef:
    pid, start, boot = body
    if not 0 < _whole(pid) < 1 << 31:  # a pid of 0 would name the reader's own process group
        raise ValueError(f"{pid} is not a pid")
    return ProcessRef(pid, _whole(start), _text(boot))


def _decode_need(body: Mapping[str, Any]) -> Need:
    need = Need(
        tuple(map(_bytes, _listed(body["sizes"]))),
        tuple(map(_positive, _listed(body["weights"]))),
        _flag(body["firm"]),
        NeedSource(body["source"]),
        _text(body["note"]),
        _positive(body["bound"]),
    )
    for problem in need_problems(need):
        raise ValueError(problem)
    return need


def _decode_share(body: Mapping[str, Any]) -> DeviceShare:
    return DeviceShare(
        _text(body["device"]),
        _bytes(body["memory_bytes"]),
        _whole(body["compute_milli"]),
        _flag(body["whole"]),
        _flag(body["soft"]),
    )


_Decoders = Mapping[str, Callable[[Any], Any]]
"""By the name of a field; a field that the text leaves out has its default."""

_USE: Final[_Decoders] = {
    "at": _real,
    "cpu": _whole,
    "memory": _bytes,
    "gpu_memory": lambda value: _table(_bytes, value),
    "gpu_busy": lambda value: _table(_positive, value),
    "peak_memory": _bytes,
    "peak_gpu_memory": _bytes,
    "settled": _flag,
}
_REQUESTED: Final[_Decoders] = {
    "cpus": _positive,
    "memory": _bytes,
    "gpu_memory": _bytes,
    "gpu_limit": _bytes,
    "gpus": _whole,
    "device": _text,
    "model": _text,
    "slo": _seconds,
    "gpu_compute": lambda value: _whole(value, 100),
    "limiter": {limiter.value: limiter for limiter in Limiter}.__getitem__,
}
_ASSUMED: Final[_Decoders] = {
    "cpu": _whole,
    "memory": _bytes,
    "gpus": _whole,
    "whole": _flag,
    "need": _decode_need,
    "seconds": _seconds,
    "firm_cpu": _flag,
    "firm_memory": _flag,
    "default_memory": _flag,
    "devices": lambda value: _table(_positive, value),
    "source": _text,
}
_JOB: Final[_Decoders] = {
    "id": _text,
    "number": lambda value: _whole(value, MOST_NUMBER),
    "name": _text,
    "kind": {kind.value: kind for kind in JobKind}.__getitem__,
    "state": {state.value: state for state in LocalState}.__getitem__,
    "submitted": _moment,
    "submitted_boot": _real,
    "boot": _text,
    "requested": lambda body: Requested(**_fields(_REQUESTED, body)),
    "assumed": lambda body: Assumed(**_fields(_ASSUMED, body)),
    "priority": _priority,
    "after": lambda value: tuple(map(_text, _listed(value))),
    "timeout": _seconds,
    "key": _text,
    "shares": lambda value: tuple(map(_decode_share, _listed(value))),
    "runner": _decode_process,
    "command": _decode_process,
    "measured": lambda body: JobUse(**_fields(_USE, body)),
    "started": _moment,
    "started_boot": _real,
    "ended": _moment,
    "exit_code": lambda value: _whole(value, 255),
    "reason": lambda value: _text(value, LONGEST_REASON),
}


def _fields(decoders: _Decoders, body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: decoders[name](value) for name, value in body.items() if name in decoders}


def decode_job(body: Mapping[str, Any], uid: int = UNOWNED, user: str = "") -> LocalJob:
    """Return the job of a record's body, with the owner of its file; it raises what a Codec may raise."""
    job = LocalJob(uid=uid, user=user, **_fields(_JOB, body))
    if job.id != str(job.number):
        raise ValueError("the id is not the number")
    return job


@lru_cache(maxsize=256)
def owned_format(uid: int, user: str) -> VersionedFormat[LocalJob]:
    """Return the format of the records of one user: it reads each with its owner."""
    return VersionedFormat("job", JSON, {1: Codec(encode_job, partial(decode_job, uid=uid, user=user))})


JOBS: Final = owned_format(UNOWNED, "")
"""The record of a job, in `jobs/` of its owner's folder, without the owner."""
