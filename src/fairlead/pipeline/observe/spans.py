"""What a worker notes of every n-th frame: when it was read, processed, sent and received.

The source decides which frames are traced; every other worker goes by the header. The identifiers of spans
are made from what the span is about, so that the two ends of an edge name the same span without a message.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from fairlead.compat import StrEnum
from fairlead.pipeline.control import Channel
from fairlead.pipeline.frame import FrameHeader

_MOST: Final = 2000
"""Spans that a worker holds until its next report; those beyond are left out, and counted."""
_MESSAGE: Final = 200
_STREAM_BITS: Final = 48
_NANO: Final = 1e9


class SpanKind(StrEnum):
    """What a frame went through."""

    STAGE = "stage"
    """A source read it, a function processed it, or a sink took it."""
    SEND = "send"
    QUEUE = "queue"
    """From the end of the sending until the next worker took it."""
    RECEIVE = "receive"
    """From when it was taken until the worker could begin with it: a join waits for its other inputs."""


class TraceSpan(NamedTuple):
    """One step of one frame; times are nanoseconds of the Unix epoch."""

    trace: int
    span: int
    parent: int
    """0: the first span of its trace."""
    kind: str
    name: str
    """A stage or an edge."""
    begin: int
    end: int
    stream: int
    sequence: int
    epoch: int
    links: Sequence[Sequence[int]] = ()
    """Other spans that it follows, each as trace and span."""


def trace_of(stream: int, sequence: int, every: int) -> int:
    """Return the trace of a frame, which a replay of it has as well; 0: it is not traced."""
    return 0 if not every or sequence % every else (stream + 1) << _STREAM_BITS | sequence + 1


def span_id(trace: int, epoch: int, kind: str, name: str, nth: int = 0) -> int:
    """Return the identifier of the nth span of its kind and name in a trace."""
    text = f"{trace}/{epoch}/{kind}/{name}/{nth}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") or 1


class FrameTracer:
    """The spans of one worker until its next report."""

    def __init__(self, stages: Sequence[str], inputs: Sequence[str]) -> None:
        self._stages = stages
        self._inputs = inputs
        self._offset = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._spans: list[TraceSpan] = []
        self._current = (0, 0)
        self._counts: Counter[tuple[str, str]] = Counter()
        """Spans of the current frame, by kind and name: a generator makes several values of one frame."""
        self._received: dict[str, tuple[int, int]] = {}
        """By input edge: the trace and the span of the frame that was received last."""
        self._left_out = 0

    def on_stage(self, header: FrameHeader, index: int, begin: float, end: float) -> None:
        """Note that a stage of this worker had a frame; times are of CLOCK_BOOTTIME."""
        self._enter(header)
        links: list[tuple[int, int]] = []  # of a join: its other inputs, maybe of other sources
        if index:
            parent = self._latest(header, SpanKind.STAGE, self._stages[index - 1])
        elif self._inputs:
            parent = self._latest(header, SpanKind.RECEIVE, self._inputs[0])
            links = [self._received[name] for name in self._inputs[1:] if name in self._received]
        else:
            parent = 0
        self._add(header, SpanKind.STAGE, self._stages[index], begin, end, parent, links)

    def on_send(self, header: FrameHeader, edge: str, begin: float, end: float) -> None:
        """Note that a frame was sent."""
        self._enter(header)
        parent = self._latest(header, SpanKind.STAGE, self._stages[-1])
        self._add(header, SpanKind.SEND, edge, begin, end, parent)

    def on_receive(self, header: FrameHeader, edge: str, begin: float, end: float) -> None:
        """Note that a frame was received."""
        self._enter(header)
        nth = self._counts[SpanKind.RECEIVE, edge]
        parent = span_id(header.trace, header.epoch, SpanKind.SEND, edge, nth)
        self._received[edge] = (
            header.trace,
            span_id(header.trace, header.epoch, SpanKind.RECEIVE, edge, nth),
        )
        self._add(header, SpanKind.RECEIVE, edge, begin, end, parent)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield what the driver receives: the spans since the last call."""
        spans, self._spans = self._spans, []
        left_out, self._left_out = self._left_out, 0
        for start in range(0, len(spans), _MESSAGE):
            yield {"event": "spans", "spans": spans[start : start + _MESSAGE], "left_out": left_out}
            left_out = 0

    def send(self, channel: Channel) -> None:
        """Send the spans since the last call to the driver."""
        for message in self.messages():
            channel.send(message)

    def _enter(self, header: FrameHeader) -> None:
        if (header.trace, header.epoch) != self._current:
            self._current = header.trace, header.epoch
            self._counts.clear()

    def _latest(self, header: FrameHeader, kind: str, name: str) -> int:
        return span_id(header.trace, header.epoch, kind, name, max(0, self._counts[kind, name] - 1))

    def _add(
        self,
        header: FrameHeader,
        kind: str,
        name: str,
        begin: float,
        end: float,
        parent: int,
        links: Sequence[tuple[int, int]] = (),
    ) -> None:
        if len(self._spans) >= _MOST:
            self._left_out += 1
            return
        span = span_id(header.trace, header.epoch, kind, name, self._counts[kind, name])
        self._counts[kind, name] += 1
        times = self._unix(begin), self._unix(end)
        about = header.stream, header.sequence, header.epoch
        self._spans.append(TraceSpan(header.trace, span, parent, kind, name, *times, *about, links))

    def _unix(self, seconds: float) -> int:
        return int(seconds * _NANO) + self._offset
