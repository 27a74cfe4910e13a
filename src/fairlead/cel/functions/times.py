"""Timestamps and durations, as CEL reads and writes them."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from fairlead.cel.errors import EvaluationError
from fairlead.cel.evaluate.values import Duration, Timestamp
from fairlead.cel.functions.operators import duration, timestamp
from fairlead.cel.functions.table import Overload, overload

_SECOND: Final = 10**9
_UNITS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6,
    "s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND,
}  # fmt: skip
_PART: Final = re.compile(r"([0-9]{0,40})(?:\.([0-9]{0,40}))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MOMENT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]{1,40}))?(Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
_ZONE: Final = re.compile(r"([+-]?)([0-9]{2}):([0-9]{2})", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def parse_duration(text: str) -> Duration:
    """Read `1h30m`, as Go does."""
    wrong = EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'")
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return Duration(0)
    at, nanos = 0, 0
    while at < len(rest):
        match = _PART.match(rest, at)
        if match is None or not (match[1] or match[2]):
            raise wrong
        unit, fraction = _UNITS[match[3]], match[2] or ""
        nanos += int(match[1] or "0") * unit + int(fraction or "0") * unit // 10 ** len(fraction)
        at = match.end()
    if not rest:
        raise wrong
    return duration(-nanos if text.startswith("-") else nanos)


def show_duration(value: Duration) -> str:
    """Return a duration in seconds: `5400s`."""
    whole, rest = divmod(abs(value.nanos), _SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if value.nanos < 0 else ''}{whole}{fraction}s"


def parse_timestamp(text: str) -> Timestamp:
    """Read a timestamp by RFC 3339."""
    match = _MOMENT.fullmatch(text)
    wrong = EvaluationError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    if match is None:
        raise wrong
    try:
        moment = datetime(*(int(match[at]) for at in range(1, 7)), tzinfo=timezone.utc)  # type: ignore[misc,arg-type]  # six numbers
    except ValueError:
        raise wrong from None
    seconds = int((moment - _EPOCH).total_seconds())
    if match[8] != "Z":
        hours, minutes = int(match[8][1:3]), int(match[8][4:6])
        seconds -= (3600 * hours + 60 * minutes) * (-1 if match[8][0] == "-" else 1)
    nanos = int((match[7] or "").ljust(9, "0")[:9] or "0")
    return timestamp(seconds * _SECOND + nanos)


def show_timestamp(value: Timestamp) -> str:
    """Return a timestamp by RFC 3339, in UTC."""
    whole, rest = divmod(value.nanos, _SECOND)
    moment = _EPOCH + timedelta(seconds=whole)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def timestamp_of(seconds: int) -> Timestamp:
    """Return the timestamp of a number of seconds since 1970."""
    return timestamp(seconds * _SECOND)


def _local(value: Timestamp, zone: str = "UTC") -> datetime:
    moment = _EPOCH + timedelta(seconds=value.nanos // _SECOND)
    try:
        if match := _ZONE.fullmatch(zone):
            offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
            return moment.astimezone(timezone(-offset if match[1] == "-" else offset))
        if zone in ("", "UTC"):
            return moment
        # Our images have no time zone database.
        from zoneinfo import ZoneInfo  # noqa: PLC0415

        return moment.astimezone(ZoneInfo(zone))
    except (ImportError, KeyError, ValueError, OSError, OverflowError):
        raise EvaluationError(f"unknown time zone {zone[:64]}") from None


def _timestamp_getter(pick: Callable[[datetime], int]) -> Callable[..., int]:
    return lambda value, zone="UTC": pick(_local(value, zone))


def _milliseconds(value: Timestamp, zone: str = "UTC") -> int:
    _local(value, zone)
    return value.nanos % _SECOND // 10**6


def _truncate(nanos: int, unit: int) -> int:
    return nanos // unit if nanos >= 0 else -(-nanos // unit)


_GETTERS: Final[dict[str, Callable[..., int]]] = {
    "getFullYear": _timestamp_getter(lambda moment: moment.year),
    "getMonth": _timestamp_getter(lambda moment: moment.month - 1),
    "getDayOfYear": _timestamp_getter(lambda moment: moment.timetuple().tm_yday - 1),
    "getDayOfMonth": _timestamp_getter(lambda moment: moment.day - 1),
    "getDate": _timestamp_getter(lambda moment: moment.day),
    "getDayOfWeek": _timestamp_getter(lambda moment: moment.isoweekday() % 7),
    "getHours": _timestamp_getter(lambda moment: moment.hour),
    "getMinutes": _timestamp_getter(lambda moment: moment.minute),
    "getSeconds": _timestamp_getter(lambda moment: moment.second),
    "getMilliseconds": _milliseconds,
}


def _duration_getter(unit: int) -> Callable[[Any], int]:
    return lambda value: _truncate(value.nanos, unit)


OVERLOADS: Final[list[Overload]] = [
    *(overload(f".timestamp.{name}() int", run) for name, run in _GETTERS.items()),
    *(overload(f".timestamp.{name}(string) int", run) for name, run in _GETTERS.items()),
    overload(".duration.getHours() int", _duration_getter(3600 * _SECOND)),
    overload(".duration.getMinutes() int", _duration_getter(60 * _SECOND)),
    overload(".duration.getSeconds() int", _duration_getter(_SECOND)),
    overload(".duration.getMilliseconds() int", lambda value: _truncate(value.nanos, 10**6)),
]
