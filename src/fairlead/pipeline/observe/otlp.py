"""Spans as OpenTelemetry's OTLP/JSON, which Jaeger opens, and as trace events, which Perfetto opens. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead import __version__
from fairlead.pipeline.observe.spans import SpanKind, TraceSpan

_INTERNAL, _PRODUCER, _CONSUMER = 1, 4, 5
_KINDS: Final = {SpanKind.SEND: _PRODUCER, SpanKind.RECEIVE: _CONSUMER}
_MICRO: Final = 1000
"""Nanoseconds of a unit of trace events."""
SpansByWorker = Mapping[str, Sequence[TraceSpan]]


def span_name(span: TraceSpan) -> str:
    """Return the name as it is shown: `blur`, `send camera->blur`."""
    return span.name if span.kind == SpanKind.STAGE else f"{span.kind} {span.name}"


def to_otlp(pipeline: str, run: int, spans: SpansByWorker) -> dict[str, Any]:
    """Return an ExportTraceServiceRequest; `run` makes the traces of several runs different."""
    return {
        "resourceSpans": [
            {
                "resource": {
                    "attributes": [
                        _attribute("service.name", worker),
                        _attribute("service.namespace", pipeline),
                    ]
                },
                "scopeSpans": [
                    {
                        "scope": {"name": "fairlead.pipeline", "version": __version__},
                        "spans": [_otlp_span(run, span) for span in each],
                    }
                ],
            }
            for worker, each in spans.items()
        ]
    }


def _otlp_span(run: int, span: TraceSpan) -> dict[str, Any]:
    about = "fairlead.stage" if span.kind == SpanKind.STAGE else "fairlead.edge"
    return {
        "traceId": _trace_id(run, span.trace),
        "spanId": f"{span.span:016x}",
        "parentSpanId": f"{span.parent:016x}" if span.parent else "",
        "name": span_name(span),
        "kind": _KINDS.get(SpanKind(span.kind), _INTERNAL),
        "startTimeUnixNano": str(span.begin),
        "endTimeUnixNano": str(span.end),
        "attributes": [
            _attribute(about, span.name),
            _attribute("fairlead.stream", span.stream),
            _attribute("fairlead.sequence", span.sequence),
            _attribute("fairlead.epoch", span.epoch),
        ],
        "links": [
            {"traceId": _trace_id(run, trace), "spanId": f"{other:016x}"} for trace, other in span.links
        ],
    }


def _trace_id(run: int, trace: int) -> str:
    return f"{run:016x}{trace:016x}"


def _attribute(key: str, value: str | int) -> dict[str, Any]:
    # A 64-bit number is a text in the JSON of protocol buffers.
    typed = {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}
    return {"key": key, "value": typed}


def to_events(process: int, span: TraceSpan) -> Iterator[dict[str, Any]]:
    """Yield the trace events of a span: a slice, and the arrow of an edge from the one to the other."""
    about = {"stream": span.stream, "sequence": span.sequence, "epoch": span.epoch}
    base = {"pid": process, "tid": process, "cat": span.kind, "name": span_name(span)}
    begin = span.begin / _MICRO
    if span.kind == SpanKind.QUEUE:
        waiting = {**base, "id": f"{span.span:x}"}
        yield {**waiting, "ph": "b", "ts": begin, "args": about}
        yield {**waiting, "ph": "e", "ts": span.end / _MICRO}
        return
    yield {**base, "ph": "X", "ts": begin, "dur": (span.end - span.begin) / _MICRO, "args": about}
    arrow = {"pid": process, "tid": process, "cat": "frame", "name": "frame", "ts": begin}
    if span.kind == SpanKind.SEND:
        yield {**arrow, "ph": "s", "id": f"{span.span:x}"}
    elif span.kind == SpanKind.RECEIVE:
        yield {**arrow, "ph": "f", "bp": "e", "id": f"{span.parent:x}"}


def process_event(process: int, worker: str) -> dict[str, Any]:
    """Return the event that names a process."""
    return {"ph": "M", "pid": process, "tid": process, "name": "process_name", "args": {"name": worker}}
