"""Record the events and effects of a state machine, to replay them: the same events give the same effects.

A recording is lines of JSON: a header, then two lines for each event: the event with its time, and the
effects that the machine returned. An event without effects is the last: the machine ended during it.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from fairlead import errors
from fairlead.cluster.http import codec
from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Object
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.errors import ClusterError, RecordingError
from fairlead.serve.machine.flow import Answered, Effect

FORMAT: Final = "fairlead-recording"
VERSION: Final = 1
_HINT: Final = "record one with: fairlead serve scheduler --record FILE"


@dataclass(frozen=True, slots=True)
class EventTypes:
    """The types of one program's events."""

    kinds: Mapping[str, type[Object]]
    """Types of objects by their names."""
    events: Mapping[str, type[Any]]
    """Types of events by their names, beside changes and answers."""

    @classmethod
    def of(cls, kinds: Iterable[Kind[Any]], events: Iterable[type[Any]]) -> "EventTypes":
        """Return the types for changes of these kinds and for these events."""
        return cls(
            {each.type.__name__: each.type for each in kinds}, {each.__name__: each for each in events}
        )


class Recorder:
    """Writes a recording unbuffered: after a crash it has every event that was handled before."""

    def __init__(self, file: BinaryIO, header: Mapping[str, Any]) -> None:
        self._file = file
        self._last: dict[tuple[str, str, str], Object] = {}
        self._write({"format": FORMAT, "version": VERSION, **header})

    @classmethod
    def create(cls, path: Path, header: Mapping[str, Any]) -> "Recorder":
        """Start a recording that only its owner may read; an existing file is not overwritten."""
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise RecordingError(f"{path}: the file exists", "name another, or delete it") from None
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror}", "name a file in a folder that exists") from None
        return cls(os.fdopen(descriptor, "wb", buffering=0), header)

    def event(self, event: Any, now: float) -> None:
        """Write an event before it is handled."""
        self._write({"now": now, "event": type(event).__name__, **self._fields(event)})

    def effects(self, effects: Sequence[Effect]) -> None:
        """Write the effects that the machine returned for the event."""
        self._file.write(encode_effects(effects) + b"\n")

    def close(self) -> None:
        """End the recording."""
        self._file.close()

    def _fields(self, event: Any) -> dict[str, Any]:
        if isinstance(event, ObjectChange):
            return self._change(event)
        if isinstance(event, Answered):
            return {"id": event.id, **_answer(event)}
        return {"fields": event}

    def _change(self, change: ObjectChange[Any]) -> dict[str, Any]:
        """Return the fields of a change; its old object is left out where it is the last one recorded."""
        kind = type(change.object).__name__
        key = (kind, *change.key)
        last = self._last.pop(key, None)
        if change.new is not None:
            self._last[key] = change.new
        old = {} if change.old is last else {"old": change.old}
        return {"kind": kind, "key": change.key, "new": change.new, **old}

    def _write(self, document: Mapping[str, Any]) -> None:
        self._file.write(codec.encode_plain(document) + b"\n")


def encode_effects(effects: Sequence[Effect]) -> bytes:
    """Return effects as a line of a recording."""
    named = [{"effect": type(effect).__name__, "fields": effect} for effect in effects]
    return codec.encode_plain({"effects": named})


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """One event of a recording."""

    number: int
    now: float
    event: Any
    effects: bytes | None
    """The effects as recorded; None where the machine ended during the event."""


def read_header(lines: Iterator[bytes], where: str) -> dict[str, Any]:
    """Read the first line of a recording."""
    try:
        header = json.loads(next(lines, b""))
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise RecordingError(f"{where}: not a recording", _HINT)
    if header.get("version") != VERSION:
        raise RecordingError(
            f"{where}: version {header.get('version')!r} is not supported",
            f"this program reads version {VERSION}",
        )
    return header


def read_events(lines: Iterator[bytes], types: EventTypes, where: str) -> Iterator[RecordedEvent]:
    """Yield the events of a recording; a truncated last line is left out."""
    reader = _Reader(types)
    for number, line in enumerate(lines, 1):
        try:
            now, event = reader.event(line)
        except (KeyError, TypeError, ValueError) as error:
            if not line.endswith(b"\n"):
                return
            what = f"unknown {error}" if isinstance(error, KeyError) else str(error)
            raise RecordingError(f"{where}: event {number}: {what}", _HINT) from None
        effects = next(lines, b"")
        whole = effects.endswith(b"\n")
        yield RecordedEvent(number, now, event, effects.removesuffix(b"\n") if whole else None)


class _Reader:
    """Reads events; it keeps the last version of each object, as the recorder does."""

    def __init__(self, types: EventTypes) -> None:
        self._types = types
        self._last: dict[tuple[str, str, str], Object] = {}

    def event(self, line: bytes) -> tuple[float, Any]:
        """Return the time and the event of a line."""
        document = json.loads(line)
        name, now = document["event"], document["now"]
        if name == ObjectChange.__name__:
            return now, self._change(document)
        if name == Answered.__name__:
            return now, self._answered(document)
        return now, codec.from_document(self._types.events[name], document["fields"])

    def _change(self, document: Mapping[str, Any]) -> ObjectChange[Any]:
        object_type = self._types.kinds[document["kind"]]
        key = (document["kind"], *document["key"])
        last = self._last.pop(key, None)
        old = _object(document["old"], object_type) if "old" in document else last
        new = _object(document["new"], object_type)
        if new is not None:
            self._last[key] = new
        return ObjectChange(old, new)

    def _answered(self, document: Mapping[str, Any]) -> Answered:
        if "error" in document:
            return Answered(document["id"], error=_error(document["error"]))
        if "kind" in document:
            object_type = self._types.kinds[document["kind"]]
            return Answered(
                document["id"], tuple(codec.from_document(object_type, each) for each in document["items"])
            )
        body = document.get("body")
        return Answered(document["id"], body.encode() if isinstance(body, str) else body)


def _answer(event: Answered) -> dict[str, Any]:
    if event.error is not None:
        return {"error": _error_fields(event.error)}
    if isinstance(event.answer, tuple | list):
        kind = type(event.answer[0]).__name__ if event.answer else ""
        return {"kind": kind, "items": event.answer} if kind else {"body": []}
    return {"body": event.answer.decode() if isinstance(event.answer, bytes) else event.answer}


def _error_fields(error: ClusterError) -> dict[str, Any]:
    return {
        "type": type(error).__name__,
        "message": str(error),
        "hint": error.hint,
        "code": error.code,
        "reason": error.reason,
        "maybe_done": getattr(error, "maybe_done", False),
    }


def _error(fields: Mapping[str, Any]) -> ClusterError:
    error_type: Callable[..., ClusterError] = getattr(errors, fields["type"])
    error = error_type(fields["message"], fields["hint"], code=fields["code"], reason=fields["reason"])
    if fields["maybe_done"]:
        error.maybe_done = True  # type: ignore[attr-defined]  # only some error classes have it
    return error


def _object(document: Any, object_type: type[Object]) -> Any:
    return None if document is None else codec.from_document(object_type, document)
