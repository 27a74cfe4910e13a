"""Traces: the spans of a frame are one tree over all stages, in files that Jaeger and Perfetto open."""

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import SettingsError
from fairlead.pipeline.driver import PipelineDriver
from fairlead.pipeline.frame import FrameHeader
from fairlead.pipeline.observe.spans import FrameTracer, SpanKind, TraceSpan, trace_of
from fairlead.pipeline.observe.trace_file import TraceFile
from tests.pipeline.pipelines import plan

CHAIN = """
pipeline: chain
fuse: false
stages:
  - {name: camera, source: numbers, options: {count: 40}}
  - {name: number, run: "$S:number"}
  - {name: log, sink: "null"}
"""
GRAPH = """
pipeline: graph
stages:
  - {name: camera, source: numbers, options: {count: 40}}
  - {name: one, run: "$S:uneven", replicas: 2}
  - {name: other, run: "$S:uneven"}
  - {name: both, run: "$S:both"}
  - {name: log, sink: "null"}
edges:
  - {from: camera, to: one}
  - {from: camera, to: other}
  - {from: one, to: both}
  - {from: other, to: both}
  - {from: both, to: log}
"""
Span = dict[str, Any]


def traced(text: str, folder: Path, name: str, every: int = 10) -> Path:
    """Run a pipeline with a trace; return its file."""
    file = TraceFile(str(folder / name), every, "p")
    PipelineDriver(plan(text, folder), lambda line: None, lambda status: None, file).run()
    file.close()
    return folder / name


def spans_of(path: Path) -> dict[str, list[Span]]:
    """Return the spans of each trace, checked for the fields of OTLP/JSON."""
    traces: dict[str, list[Span]] = {}
    for line in path.read_text().splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            attributes = {each["key"]: each["value"] for each in resource["resource"]["attributes"]}
            assert set(attributes) == {"service.name", "service.namespace"}
            for scope in resource["scopeSpans"]:
                assert scope["scope"]["name"] == "fairlead.pipeline"
                for span in scope["spans"]:
                    assert len(bytes.fromhex(span["traceId"])) == 16
                    assert len(bytes.fromhex(span["spanId"])) == 8
                    assert 0 < int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
                    assert all(
                        {"stringValue", "intValue"} & set(each["value"]) for each in span["attributes"]
                    )
                    traces.setdefault(span["traceId"], []).append(span)
    return traces


def parents(spans: list[Span]) -> dict[str, str]:
    """Return the name of each span with the name of its parent; the first one has none."""
    by_id = {span["spanId"]: span["name"] for span in spans}
    assert len(by_id) == len(spans), "identifiers are unique"
    return {span["name"]: by_id[span["parentSpanId"]] if span["parentSpanId"] else "" for span in spans}


def test_the_spans_of_a_frame_are_a_chain_over_all_stages(tmp_path: Path) -> None:
    traces = spans_of(traced(CHAIN, tmp_path, "t.jsonl"))
    assert len(traces) == 4
    for spans in traces.values():
        assert parents(spans) == {
            "camera": "",
            "send camera->number": "camera",
            "queue camera->number": "send camera->number",
            "receive camera->number": "send camera->number",
            "number": "receive camera->number",
            "send number->log": "number",
            "queue number->log": "send number->log",
            "receive number->log": "send number->log",
            "log": "receive number->log",
        }
        kinds = {span["name"]: span["kind"] for span in spans}
        assert (kinds["camera"], kinds["send number->log"], kinds["receive number->log"]) == (1, 4, 5)
    sequences = {
        each["value"]["intValue"]
        for spans in traces.values()
        for each in spans[0]["attributes"]
        if each["key"] == "fairlead.sequence"
    }
    assert sequences == {"0", "10", "20", "30"}


def test_the_spans_of_a_graph_meet_at_the_join(tmp_path: Path) -> None:
    for spans in spans_of(traced(GRAPH, tmp_path, "t.jsonl", every=20)).values():
        tree = parents(spans)
        assert [name for name, parent in tree.items() if not parent] == ["camera"]
        assert tree["both"] == "receive one->both"
        assert tree["log"] == "both", "fused: no edge between them"
        by_name = {span["name"]: span for span in spans}
        (link,) = by_name["both"]["links"]
        assert link["spanId"] == by_name["receive other->both"]["spanId"]
        assert link["traceId"] == by_name["both"]["traceId"]
        for name in tree:
            way = [name]
            while tree[way[-1]]:
                way.append(tree[way[-1]])
            assert way[-1] == "camera"


def test_trace_events_are_one_list_with_arrows_along_edges(tmp_path: Path) -> None:
    path = traced(CHAIN, tmp_path, "t.perfetto.json")
    events = json.loads(path.read_text())
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names >= {"camera", "number", "log"}
    slices = [event for event in events if event["ph"] == "X"]
    assert {event["name"] for event in slices} >= {"camera", "number", "log", "send camera->number"}
    assert all(event["dur"] >= 0 for event in slices)
    begun, ended = ({event["id"] for event in events if event["ph"] == phase} for phase in "sf")
    assert begun == ended
    assert len(begun) == 8
    assert len([event for event in events if event["ph"] == "b"]) == 8


def span(kind: str, number: int, parent: int = 0) -> TraceSpan:
    """Return a span of one millisecond."""
    return TraceSpan(1, number, parent, kind, "a->b", number * 10**6, (number + 1) * 10**6, 0, 0, 0)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_wait_is_found_whichever_end_reports_first(tmp_path: Path, order: tuple[int, int]) -> None:
    file = TraceFile(str(tmp_path / "t"), 1, "p")
    ends = [("a", span(SpanKind.SEND, 5)), ("b", span(SpanKind.RECEIVE, 9, 5))]
    for index in order:
        file.write(ends[index][0], [ends[index][1]])
    file.close()
    (spans,) = spans_of(tmp_path / "t").values()
    (wait,) = [each for each in spans if each["name"] == "queue a->b"]
    assert (wait["startTimeUnixNano"], wait["endTimeUnixNano"]) == ("6000000", "9000000")
    assert wait["parentSpanId"] == f"{5:016x}"


def test_a_file_is_bounded_and_whole_lines(tmp_path: Path) -> None:
    file = TraceFile(str(tmp_path / "t"), 1, "p", most_bytes=2000)
    for number in range(1, 100):
        file.write("a", [span(SpanKind.STAGE, number)])
    text = (tmp_path / "t").read_text()  # not closed: as after a kill
    assert 1000 < len(text) <= 2000
    written = len([json.loads(line) for line in text.splitlines()])
    assert file.left_out == 99 - written
    file.close()


def test_a_worker_holds_a_bounded_number_of_spans() -> None:
    tracer = FrameTracer(["a"], [])
    for sequence in range(5000):
        tracer.on_stage(FrameHeader(0, sequence, 1.0, trace=trace_of(0, sequence, 1)), 0, 1.0, 2.0)
    messages = list(tracer.messages())
    assert sum(len(each["spans"]) for each in messages) + sum(each["left_out"] for each in messages) == 5000
    assert sum(each["left_out"] for each in messages) == 3000
    assert max(len(json.dumps(each)) for each in messages) < 1 << 17
    assert list(tracer.messages()) == []


@pytest.mark.parametrize(
    ("sequence", "every", "is_traced"), [(0, 100, True), (99, 100, False), (200, 100, True), (0, 0, False)]
)
def test_the_source_decides_which_frames_are_traced(sequence: int, every: int, is_traced: bool) -> None:
    assert bool(trace_of(0, sequence, every)) is is_traced
    assert trace_of(0, 7, 7) != trace_of(1, 7, 7)


def test_several_values_of_a_frame_have_their_own_spans() -> None:
    tracer = FrameTracer(["split"], ["in->split"])
    header = FrameHeader(0, 0, 1.0, trace=1)
    tracer.on_receive(header, "in->split", 1.0, 1.0)
    tracer.on_stage(header, 0, 1.0, 2.0)
    for _ in range(2):
        tracer.on_send(header, "split->out", 2.0, 3.0)
    (message,) = tracer.messages()
    assert len({each.span for each in message["spans"]}) == 4


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--trace"):
        TraceFile(str(tmp_path / "none" / "t"), 1, "p")
