"""The status of a running pipeline as a page; every value is in the document of its counters."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead import __version__
from fairlead.metrics.exposition import HistogramFamily, MetricFamily, Row, counter, family, gauge

Document = Mapping[str, Any]
_STAGE: Final = ("pipeline", "stage")
_EDGE: Final = ("pipeline", "from", "to")
_HOST: Final = ("pipeline", "host")
_SHARES: Final = {  # of a stage: help
    "busy": "Share of the last seconds in which the processes of a stage were in its function.",
    "waiting": "Share of the last seconds in which the processes of a stage waited for frames.",
    "blocked": "Share of the last seconds in which the processes of a stage sent, or waited for room.",
}
_BATCH: Final = {  # of the batches of a stage: the end of the metric's name, help
    "size": ("size", "Frames that a batch of a stage waits for."),
    "most": ("size_max", "Frames that a batch of a stage has at most."),
    "wait": ("wait_seconds", "Time that the first frame of a batch waits for others."),
}
_STAGE_TIMES: Final = {
    "receive": "Time from the end of one frame until the next one was there.",
    "process": "Time of one call of a stage; of a batch, for all its frames.",
    "send": "Time to encode a result, to wait for room and to copy it.",
}
_EDGE_TIMES: Final = {
    "send": "Time to hand a frame to an edge, waiting for room included.",
    "receive": "Time that the next stage waited for a frame of an edge.",
    "age": "Time since a frame was captured, when it is taken from an edge.",
}
_EDGE_TOTALS: Final = {
    "sent": "Frames that were sent on an edge.",
    "received": "Frames that arrived at the end of an edge.",
    "taken": "Frames that the next stage took.",
}


_HOST_VALUES: Final = {  # of a host: the end of the metric's name, its kind, help
    "connected": ("connected", "gauge", "Whether the host is connected."),
    "connections": ("connections_total", "counter", "Connections that were made with a host."),
    "round_trip": ("round_trip_seconds", "gauge", "Round trip to a host."),
    "clock_offset": ("clock_offset_seconds", "gauge", "What a host's clock is ahead of this one."),
}
_REFUSED: Final = "refused_"
_OWN_HOST: Final = "local"
"""The coordinator's, as `on` of a stage names it."""


def render_pipeline(document: Document) -> bytes:
    """Return the page; before the first report of a worker it is empty."""
    families = [
        *_run_metrics(document),
        *_stage_metrics(document),
        *_edge_metrics(document),
        *_host_metrics(document),
    ]
    return "".join(line for family in families for line in family.lines()).encode()


def _run_metrics(document: Document) -> Iterator[MetricFamily]:
    if not document:
        return
    name = str(document["pipeline"])
    facts = [((name, __version__, platform.python_version()), 1.0)]
    text = "The pipeline that this page shows."
    yield from gauge("fairlead_pipeline_info", text, ("pipeline", "version", "python"), facts)
    rows: list[Row] = [((name,), document["seconds"])]
    yield from gauge("fairlead_pipeline_uptime_seconds", "Time since the run began.", ("pipeline",), rows)
    moves: list[Row] = [((name,), len(document.get("moves", ())))]
    text = "Moves of stages to other hosts, or to new processes where they are."
    yield from counter("fairlead_pipeline_moves_total", text, ("pipeline",), moves)


def _stage_metrics(document: Document) -> Iterator[MetricFamily | HistogramFamily]:
    stages = [((str(document["pipeline"]), each["name"]), each) for each in document.get("stages", ())]
    frames: list[Row] = [((*key, way), each[way]) for key, each in stages for way in ("in", "out")]
    text = "Frames that entered and left a stage."
    yield from counter("fairlead_pipeline_stage_frames_total", text, (*_STAGE, "direction"), frames)
    rows: list[Row] = [(key, each["failed"]) for key, each in stages]
    text = "Frames that a stage failed with and skipped."
    yield from counter("fairlead_pipeline_stage_failed_total", text, _STAGE, rows)
    lost = [((*key, why), number) for key, each in stages for why, number in each.get("dropped", {}).items()]
    text = "Frames that a source dropped before they entered the pipeline, by reason."
    yield from counter("fairlead_pipeline_stage_dropped_total", text, (*_STAGE, "reason"), lost)
    roles: list[Row] = [((*key, each["role"]), 1.0) for key, each in stages]
    text = "What a stage does: source, run, exec or sink; always 1."
    yield from gauge("fairlead_pipeline_stage_info", text, (*_STAGE, "role"), roles)
    rows = [(key, each["restarts"]) for key, each in stages]
    text = "Processes of a stage that were started again."
    yield from counter("fairlead_pipeline_stage_restarts_total", text, _STAGE, rows)
    rows = [(key, len(each["workers"])) for key, each in stages]
    yield from gauge("fairlead_pipeline_stage_processes", "Processes of a stage.", _STAGE, rows)
    yield from _scaling_metrics(document)
    places: list[Row] = [((*key, host), 1.0) for key, each in stages for host in each.get("hosts", ())]
    text = "The host that a stage is on; always 1."
    yield from gauge("fairlead_pipeline_stage_host_info", text, (*_STAGE, "host"), places)
    for share, text in _SHARES.items():
        rows = [(key, each[share]) for key, each in stages]
        yield from gauge(f"fairlead_pipeline_stage_{share}_ratio", text, _STAGE, rows)
    for what, (name, text) in _BATCH.items():
        rows = [(key, each["batch"][what]) for key, each in stages if each.get("batch")]
        yield from gauge(f"fairlead_pipeline_stage_batch_{name}", text, _STAGE, rows)
    for kind, text in _STAGE_TIMES.items():
        yield from _times(document, f"fairlead_pipeline_stage_{kind}_seconds", text, _STAGE, stages, kind)


def _scaling_metrics(document: Document) -> Iterator[MetricFamily]:
    scaled = [((str(document["pipeline"]), each["stage"]), each) for each in document.get("scaling", ())]
    for bound in ("min", "max"):
        rows: list[Row] = [(key, each[bound]) for key, each in scaled]
        text = f"The {bound} of a stage's replicas, which follow its load."
        yield from gauge(f"fairlead_pipeline_stage_replicas_{bound}", text, _STAGE, rows)
    rows = [(key, each["changes"]) for key, each in scaled]
    text = "Changes of a stage's replicas, which follow its load."
    yield from counter("fairlead_pipeline_stage_scalings_total", text, _STAGE, rows)


def _edge_metrics(document: Document) -> Iterator[MetricFamily | HistogramFamily]:
    edges = [
        ((str(document["pipeline"]), each["from"], each["to"]), each) for each in document.get("edges", ())
    ]
    for what, text in _EDGE_TOTALS.items():
        rows: list[Row] = [(key, each[what]) for key, each in edges]
        yield from counter(f"fairlead_pipeline_edge_{what}_total", text, _EDGE, rows)
    rows = [((*key, reason), number) for key, each in edges for reason, number in each["dropped"].items()]
    text = "Frames that an edge dropped, by reason."
    yield from counter("fairlead_pipeline_edge_dropped_total", text, (*_EDGE, "reason"), rows)
    rows = [(key, each["depth"]) for key, each in edges]
    yield from gauge("fairlead_pipeline_edge_depth", "Frames that an edge holds.", _EDGE, rows)
    rows = [(key, each["size"]) for key, each in edges]
    yield from gauge("fairlead_pipeline_edge_depth_max", "Frames that an edge can hold.", _EDGE, rows)
    policies: list[Row] = [((*key, each["policy"]), 1.0) for key, each in edges]
    text = "What an edge does with frames that it has no place for; always 1."
    yield from gauge("fairlead_pipeline_edge_info", text, (*_EDGE, "policy"), policies)
    rows = [(key, each["max_age"]) for key, each in edges if each.get("max_age") is not None]
    text = "The age from which an edge drops frames; an edge that keeps them has none."
    yield from gauge("fairlead_pipeline_edge_age_max_seconds", text, _EDGE, rows)
    for kind, text in _EDGE_TIMES.items():
        yield from _times(document, f"fairlead_pipeline_edge_{kind}_seconds", text, _EDGE, edges, kind)


def _host_metrics(document: Document) -> Iterator[MetricFamily]:
    """Yield what is known of the connections with other hosts, and of the certificates of all."""
    hosts = [((str(document["pipeline"]), name), each) for name, each in document.get("hosts", {}).items()]
    for what, (name, kind, text) in _HOST_VALUES.items():
        rows: list[Row] = [(key, each[what]) for key, each in hosts if each.get(what) is not None]
        yield from family(f"fairlead_pipeline_host_{name}", kind, text, _HOST, rows)
    refused: list[Row] = [
        ((*key, what.removeprefix(_REFUSED)), number)
        for key, each in hosts
        for what, number in each.get("counters", {}).items()
        if what.startswith(_REFUSED)
    ]
    text = "Connections and streams that a host refused."
    yield from counter("fairlead_pipeline_host_refused_total", text, (*_HOST, "what"), refused)
    own = (_OWN_HOST, document.get("certificate_ends"))
    ends = [own, *((key[1], each.get("certificate_ends")) for key, each in hosts)]
    rows = [((str(document["pipeline"]), host), at) for host, at in ends if at is not None]
    text = "Until when the certificate of a host is valid, in seconds of Unix time."
    yield from gauge("fairlead_pipeline_host_certificate_expiry_timestamp_seconds", text, _HOST, rows)


def _times(
    document: Document,
    name: str,
    text: str,
    labels: Sequence[str],
    entries: Sequence[tuple[tuple[str, ...], Document]],
    kind: str,
) -> Iterator[HistogramFamily]:
    """Yield the histogram of one kind of duration; an entry without a duration has no series."""
    times = {key: each["times"][kind] for key, each in entries if kind in each["times"]}
    series = {key: (each["buckets"], each["sum"]) for key, each in times.items() if each["count"]}
    if series:
        yield HistogramFamily(name, text, labels, document["bounds"], series)
