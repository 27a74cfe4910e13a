"""The frame of `pipeline top`: the graph on a terminal of any size, without colours as well."""

from typing import Any

import pytest

from fairlead.cli.live.keys import SpecialKey
from fairlead.cli.live.loop import KeyEffect
from fairlead.cli.live.paint import ASCII, UNICODE, StyledLine, cells_of
from fairlead.cli.live.terminal import Size
from fairlead.cli.pipeline.graph_frame import GraphControls, StageOrder, graph_frame, press, text_lines


def stage(name: str, role: str = "run", **more: Any) -> dict[str, Any]:
    """Return a stage of a status."""
    usual = {"rate": 30.0, "busy": 0.1, "waiting": 0.8, "blocked": 0.05, "in": 90, "out": 90}
    process = {"count": 90, "sum": 0.09, "p50": 0.001, "p99": 0.002}
    rest = {"workers": [name], "restarts": 0, "failed": 0, "times": {"process": process}}
    return {"name": name, "role": role, **usual, **rest, **more}


def edge(start: str, end: str, **more: Any) -> dict[str, Any]:
    """Return an edge of a status."""
    usual = {"policy": "block", "size": 8, "depth": 2, "rate": 30.0, "age": 0.012, "dropped": {}}
    return {"from": start, "to": end, **usual, **more}


STAGES = [
    stage("camera", "source"),
    stage("detect", busy=0.97, workers=["detect/0", "detect/1"], restarts=1),
    stage("draw"),
    stage("log", "sink", rate=29.5, out=1234),
]
STATUS = {
    "pipeline": "people",
    "seconds": 125.0,
    "bottleneck": "detect",
    "stages": STAGES,
    "edges": [
        edge("camera", "detect", policy="drop_oldest", depth=8, dropped={"oldest": 28, "expired": 3}),
        edge("camera", "draw"),
        edge("detect", "draw"),
    ],
    "fused": [{"from": "draw", "to": "log"}],
}


def texts(lines: tuple[StyledLine, ...] | list[StyledLine]) -> list[str]:
    """Return lines without their styles."""
    return ["".join(piece.text for piece in line).rstrip() for line in lines]


def test_a_frame_of_80x24_shows_the_graph() -> None:
    shown = texts(graph_frame(STATUS, Size(24, 80), GraphControls(), ASCII))
    assert len(shown) == 24
    assert shown[:10] == [
        "pipeline top  people  2m05s  1234 frames  29.5/s  31 dropped  1 restart  * bott~",
        "STAGE                RATE BUSY              PROCESS     P99 WAITS BLOCK   FRAMES",
        "camera             30.0/s [=.........]  10%   1.0ms   2.0ms   80%    5%       90",
        "  -> detect        30.0/s [==========] 8/8  age 12ms, dropped 28 oldest, 3 expi~",
        "  -> draw          30.0/s [==........] 2/8  age 12ms, block",
        "detect x2 *        30.0/s [==========]  97%   1.0ms   2.0ms   80%    5%       90",
        "  -> draw          30.0/s [==........] 2/8  age 12ms, block",
        "draw               30.0/s [=.........]  10%   1.0ms   2.0ms   80%    5%       90",
        "  -> log  in the same process",
        "log                29.5/s [=.........]  10%   1.0ms   2.0ms   80%    5%     1234",
    ]
    assert shown[-1] == "q quit  s sort  p pause  j/k scroll  h help"


def test_the_edge_into_a_stage_shows_how_many_frames_a_batch_waits_for() -> None:
    batch = {"size": 6, "most": 8, "wait": 0.02}
    stages = [each | {"batch": batch if each["name"] == "detect" else None} for each in STAGES]
    page = texts(text_lines({**STATUS, "stages": stages}, ASCII))
    assert page[3].endswith("age 12ms, batch 6, dropped 28 oldest, 3 expired, drop_oldest")
    assert [line for line in page if "batch" in line] == [page[3]]


def test_replicas_that_follow_the_load_are_shown_with_their_bound() -> None:
    scaled = {"stage": "detect", "replicas": 2, "min": 1, "max": 2, "changes": 1, "held_by": "max is 2"}
    page = texts(text_lines({**STATUS, "scaling": [scaled]}, ASCII))
    assert page[5].startswith("detect x2/2 *      30.0/s")
    assert page[5].endswith("90 max is 2 1 restarted")


def test_a_canary_is_shown_with_its_share() -> None:
    versions = [{"version": "stable", "percent": 90}, {"version": "canary", "percent": 10}]
    stages = [each | ({"versions": versions} if each["name"] == "detect" else {}) for each in STAGES]
    page = texts(text_lines({**STATUS, "stages": stages}, ASCII))
    assert page[5].endswith("90 canary 10% 1 restarted")
    assert [line for line in page if "canary" in line] == [page[5]]


def test_a_page_without_a_terminal_cuts_nothing() -> None:
    page = texts(text_lines(STATUS, ASCII))
    assert page[3].endswith("dropped 28 oldest, 3 expired, drop_oldest")
    assert page[5].endswith("90 1 restarted")


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (10, 40), (24, 80), (60, 200)])
@pytest.mark.parametrize("glyphs", [ASCII, UNICODE])
def test_a_frame_fits_into_every_size(size: tuple[int, int], glyphs: Any) -> None:
    for controls in (GraphControls(), GraphControls(help=True), GraphControls(first=5, paused=True)):
        lines = texts(graph_frame(STATUS, Size(*size), controls, glyphs))
        assert len(lines) == size[0]
        assert all(cells_of(line) <= size[1] for line in lines)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("s", GraphControls(order=StageOrder.BUSY)),
        ("ssss", GraphControls()),
        ("jjk", GraphControls(first=1)),
        ("kp", GraphControls(paused=True)),
        ("pp", GraphControls()),
        ("h", GraphControls(help=True)),
        ("hx", GraphControls()),
        ([SpecialKey.PAGE_DOWN], GraphControls(first=7)),
    ],
)
def test_keys_change_what_is_shown(keys: Any, expected: GraphControls) -> None:
    controls = GraphControls()
    for key in keys:
        controls, effect = press(controls, key, 8)
        assert effect is KeyEffect.NONE
    assert controls == expected
    assert press(controls, "q", 8)[1] is KeyEffect.QUIT


@pytest.mark.parametrize(
    ("order", "first"),
    [(StageOrder.BUSY, "detect x2 *"), (StageOrder.DROPPED, "camera"), (StageOrder.RATE, "camera")],
)
def test_stages_are_sorted_with_their_edges_below(order: StageOrder, first: str) -> None:
    shown = texts(graph_frame(STATUS, Size(24, 80), GraphControls(order=order), ASCII))
    assert shown[2].startswith(first)
    assert shown[3].startswith("  -> ")
