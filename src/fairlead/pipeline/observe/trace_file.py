"""The file that spans are written to: bounded, and readable whenever the run is killed."""

import json
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from fairlead.errors import SettingsError
from fairlead.pipeline.observe.otlp import SpansByWorker, process_event, to_events, to_otlp
from fairlead.pipeline.observe.spans import SpanKind, TraceSpan, span_id

EVENTS_SUFFIX: Final = ".perfetto.json"
"""A file with this end is a list of trace events; any other is OTLP/JSON, one object a line."""
MOST_BYTES: Final = 256 << 20
_MOST_OPEN: Final = 4096
"""Frames on edges whose other end is not known yet."""


class EdgeWaits:
    """Finds out how long frames were on an edge: the two ends report at different times."""

    def __init__(self) -> None:
        self._sent: OrderedDict[int, int] = OrderedDict()
        self._received: OrderedDict[int, tuple[str, TraceSpan]] = OrderedDict()

    def add(self, worker: str, span: TraceSpan) -> tuple[str, TraceSpan] | None:
        """Return the wait that this span completes, and the worker that received the frame."""
        if span.kind == SpanKind.SEND:
            if span.span in self._received:
                return _wait(span.end, *self._received.pop(span.span))
            self._sent[span.span] = span.end
        elif span.kind == SpanKind.RECEIVE:
            if span.parent in self._sent:
                return _wait(self._sent.pop(span.parent), worker, span)
            self._received[span.parent] = worker, span
        for pending in (self._sent, self._received):
            if len(pending) > _MOST_OPEN:
                pending.popitem(last=False)
        return None


def _wait(sent: int, worker: str, span: TraceSpan) -> tuple[str, TraceSpan]:
    number = span_id(span.trace, span.epoch, SpanKind.QUEUE, span.name, span.parent)
    begin = min(sent, span.begin)
    return worker, span._replace(span=number, kind=SpanKind.QUEUE, begin=begin, end=span.begin)


class TraceFile:
    """The trace of one run: each message of a worker becomes one write, so no half of a line is left."""

    def __init__(self, path: str, every: int, pipeline: str, most_bytes: int = MOST_BYTES) -> None:
        """Begin the file; SettingsError where it cannot be written."""
        self.every = every
        """Of how many frames of a source one is traced."""
        self.left_out = 0
        """Spans that were not written: a worker held too many, or the file is full."""
        self._pipeline = pipeline
        self._most = most_bytes
        self._run = secrets.randbits(64)
        self._waits = EdgeWaits()
        self._events = path.endswith(EVENTS_SUFFIX)
        self._numbers: dict[str, int] = {}
        self._size = 0
        try:
            self._file = open(path, "wb", buffering=0)  # noqa: SIM115 - `close` closes it
        except OSError as error:
            raise SettingsError(
                f"--trace {path}: {error.strerror}", "name a file that can be written"
            ) from None
        if self._events:
            self._file.write(b"[\n")

    def write(self, worker: str, rows: Iterable[Sequence[Any]], left_out: int = 0) -> None:
        """Write the spans of one message, and the waits on edges that they complete."""
        self.left_out += left_out
        spans: dict[str, list[TraceSpan]] = {}
        for row in rows:
            span = TraceSpan(*row)
            spans.setdefault(worker, []).append(span)
            if (wait := self._waits.add(worker, span)) is not None:
                spans.setdefault(wait[0], []).append(wait[1])
        if not spans:
            return
        data = self._event_lines(spans) if self._events else _line(to_otlp(self._pipeline, self._run, spans))
        if self._size + len(data) > self._most:
            self.left_out += sum(map(len, spans.values()))
            return
        try:
            self._size += self._file.write(data)
        except OSError:  # the disk is full: the pipeline goes on
            self._most = 0

    def close(self) -> None:
        """End the file."""
        if self._events:
            last = json.dumps(process_event(0, f"pipeline {self._pipeline}")).encode()
            self._file.write(last + b"\n]\n")
        self._file.close()

    def _event_lines(self, spans: SpansByWorker) -> bytes:
        events = []
        for worker, each in spans.items():
            if worker not in self._numbers:
                self._numbers[worker] = len(self._numbers) + 1
                events.append(process_event(self._numbers[worker], worker))
            events += [event for span in each for event in to_events(self._numbers[worker], span)]
        return b"".join(json.dumps(event, separators=(",", ":")).encode() + b",\n" for event in events)


def _line(request: dict[str, Any]) -> bytes:
    return json.dumps(request, separators=(",", ":")).encode() + b"\n"
