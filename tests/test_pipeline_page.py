"""The metrics of a pipeline: what Prometheus reads is what was counted, and every metric is documented."""

import re
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from fairlead.metrics.pipeline_page import render_pipeline

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "metrics.md"


def times(*names: str) -> dict[str, Any]:
    """Return histograms with three durations each."""
    return {name: {"count": 3, "sum": 0.75, "p50": 0.2, "p99": 0.5, "buckets": [1, 2, 0]} for name in names}


STATUS: dict[str, Any] = {
    "pipeline": 'people "1"',
    "seconds": 12.5,
    "bounds": [0.1, 1.0],
    "stages": [
        {
            "name": "blur",
            "role": "run",
            "workers": ["blur/0", "blur/1"],
            "hosts": ["edge-1"],
            "in": 7,
            "out": 6,
            "failed": 1,
            "dropped": {"overrun": 4},
            "restarts": 2,
            "batch": {"size": 6, "most": 8, "wait": 0.02},
            "busy": 0.5,
            "waiting": 0.25,
            "blocked": 0.125,
            "times": times("receive", "process", "send"),
        }
    ],
    "edges": [
        {
            "from": "camera",
            "to": "blur",
            "size": 4,
            "policy": "drop_oldest",
            "max_age": 0.2,
            "sent": 10,
            "received": 9,
            "taken": 7,
            "dropped": {"oldest": 2, "expired": 1},
            "depth": 3,
            "times": times("send", "receive", "age"),
        }
    ],
    "scaling": [
        {"stage": "blur", "replicas": 2, "min": 1, "max": 4, "changes": 3, "last": None, "held_by": ""}
    ],
    "certificate_ends": 1800000000.0,
    "hosts": {
        "edge": {
            "certificate_ends": 1700000000.0,
            "connected": True,
            "connections": 2,
            "round_trip": 0.001,
            "clock_offset": -2.5,
            "counters": {"refused_streams": 3, "frames": 9},
        },
        "away": {"connected": False},
    },
}


def samples(status: dict[str, Any]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return the values that Prometheus' own parser reads, by name and labels without the pipeline."""
    values = {}
    for family in text_string_to_metric_families(render_pipeline(status).decode()):
        for sample in family.samples:
            labels = {key: text for key, text in sample.labels.items() if key != "pipeline"}
            assert sample.labels["pipeline"] == 'people "1"'
            values[sample.name.removeprefix("fairlead_pipeline_"), tuple(sorted(labels.items()))] = (
                sample.value
            )
    return values


def test_the_page_has_what_was_counted() -> None:
    values = samples(STATUS)
    stage, edge = (("stage", "blur"),), (("from", "camera"), ("to", "blur"))
    assert values["stage_frames_total", (("direction", "in"), *stage)] == 7
    assert values["stage_frames_total", (("direction", "out"), *stage)] == 6
    assert values["stage_failed_total", stage] == 1
    assert values["stage_restarts_total", stage] == 2
    assert values["stage_processes", stage] == 2
    assert (values["stage_replicas_min", stage], values["stage_replicas_max", stage]) == (1, 4)
    assert values["stage_scalings_total", stage] == 3
    assert values["stage_busy_ratio", stage] == 0.5
    assert values["stage_batch_size", stage] == 6
    assert values["stage_batch_size_max", stage] == 8
    assert values["stage_batch_wait_seconds", stage] == 0.02
    assert values["stage_process_seconds_bucket", (("le", "0.1"), *stage)] == 1
    assert values["stage_process_seconds_bucket", (("le", "1.0"), *stage)] == 3
    assert values["stage_process_seconds_bucket", (("le", "+Inf"), *stage)] == 3
    assert values["stage_process_seconds_sum", stage] == 0.75
    assert values["stage_process_seconds_count", stage] == 3
    assert values["edge_sent_total", edge] == 10
    assert values["stage_dropped_total", (("reason", "overrun"), *stage)] == 4
    host = (("host", "edge"),)
    assert values["host_connected", host] == 1
    assert values["host_clock_offset_seconds", host] == -2.5
    assert values["host_certificate_expiry_timestamp_seconds", host] == 1700000000
    assert values["host_certificate_expiry_timestamp_seconds", (("host", "local"),)] == 1800000000
    assert values["host_refused_total", (*host, ("what", "streams"))] == 3
    assert values["edge_dropped_total", (("from", "camera"), ("reason", "oldest"), ("to", "blur"))] == 2
    assert values["stage_info", (("role", "run"), *stage)] == 1
    assert values["edge_info", (("from", "camera"), ("policy", "drop_oldest"), ("to", "blur"))] == 1
    assert values["edge_age_max_seconds", edge] == 0.2
    assert values["edge_depth", edge] == 3
    assert values["edge_depth_max", edge] == 4
    assert values["edge_age_seconds_count", edge] == 3
    assert values["uptime_seconds", ()] == 12.5


def test_a_stage_without_batches_has_no_size() -> None:
    (stage,) = STATUS["stages"]
    page = render_pipeline(STATUS | {"stages": [stage | {"batch": None}]})
    assert b"stage_busy_ratio" in page
    assert b"stage_batch" not in page


def test_before_the_first_report_the_page_is_empty() -> None:
    assert render_pipeline({}) == b""


def test_every_metric_is_documented_with_its_labels() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## Pipelines", 1)[1].split("\n## ", 1)[0]
    documented = {
        name: set(re.findall(r"`(\w+)`", cells[1]))
        for line in section.splitlines()
        if line.startswith("| `fairlead_pipeline_")
        for cells in [line.strip("|").split("|")]
        for name in re.findall(r"`(fairlead_\w+)`", cells[0])
    }
    page = render_pipeline(STATUS).decode()
    made: dict[str, set[str]] = {}
    for name, kind in re.findall(r"# TYPE (\S+) (\S+)", page):
        suffix = "_count" if kind == "histogram" else ""
        labels = re.search(rf"^{name}{suffix}{{(.*?)}} ", page, re.MULTILINE)
        assert labels is not None
        made[name] = set(re.findall(r'(\w+)="', labels[1]))
    assert documented == made
