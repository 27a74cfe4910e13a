"""The frame of `top`: what it shows at several sizes, and that no size breaks it."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.cli.live.paint import ASCII, UNICODE, Style, StyledLine, cells_of, clip, pad
from fairlead.cli.live.terminal import Size
from fairlead.cli.local.live.bars import Part, bar
from fairlead.cli.local.live.controls import Controls, SortKey, rows_of
from fairlead.cli.local.live.frame import HELP, frame, text_frame
from fairlead.job import Requested
from fairlead.units import Bytes
from tests.cli.local.worlds import GI, busy_status, device, job, machine, running, status
from tests.test_pages import ROOT, blocks


def texts(lines: "tuple[StyledLine, ...] | list[StyledLine]") -> list[str]:
    return ["".join(piece.text for piece in line).rstrip() for line in lines]


def shown(rows: int, columns: int, controls: Controls | None = None) -> list[str]:
    return texts(frame(busy_status(), Size(rows, columns), controls or Controls(), ASCII))


def test_a_frame_of_80_by_24_shows_devices_jobs_reasons_and_keys() -> None:
    lines = shown(24, 80)
    assert lines[:11] == [
        "fairlead top  3 running, 2 queued, 1 GPU process of others",
        "cpu    [1===2===3==.........] 3.5/8      ram  [123=#...............] 8/32Gi",
        "a100:0 [1===2=====##........] 24/40Gi    busy [1====2====..........] 50%",
        "a100:1 [3==============.....] 30/40Gi    busy [3====#####..........] 50%",
        "ID NAME             STATE   DEVICE GPU-MEM    CPU TIME  WHY",
        "1  train            running a100:0 8/10Gi     1.5 30s",
        "2  embed            running a100:0 12/16Gi    1.5 30s",
        "3  finetune-the-la~ running a100:1 30Gi/whole 1.5 30s",
        "4  big              queued  -      30Gi       -   1m00s #1: needs 30 GiB of an ~",
        "5  later            queued  -      -          2   1m00s #2: waits for job 4; st~",
        "process 77 (python3, user cy) uses 3Gi of a100:0: not started through fairlead;~",
    ]
    assert lines[-1] == "q quit  s sort  / filter  c cancel  p pause  h help"
    assert len(lines) == 24


def test_a_narrow_frame_keeps_what_matters_most() -> None:
    lines = shown(12, 50)
    assert lines[1] == "cpu    [1=====2====3=====.............] 3.5/8"
    assert lines[3].startswith("a100:0 [1=====2========###")
    assert lines[5].split() == ["ID", "NAME", "STATE", "WHY"]
    tiny = shown(5, 20)
    assert tiny[3] == "1  train running"


def test_the_selected_job_shows_its_whole_reason_below() -> None:
    lines = shown(24, 80, Controls(selected="4"))
    assert " ".join(lines[-3:-1]) == (
        "4 big: #1: needs 30 GiB of an accelerator; the most that is free is 12 GiB; starts in about 1m00s"
    )


@pytest.mark.parametrize(
    ("controls", "last"),
    [
        (Controls(asking="1"), "cancel job 1? y/n"),
        (Controls(typing=True, filter="tr"), "/tr_"),
        (Controls(message="not cancelled"), "not cancelled"),
    ],
)
def test_the_last_line_asks(controls: Controls, last: str) -> None:
    assert shown(24, 80, controls)[-1] == last


def test_help_names_every_key() -> None:
    lines = shown(24, 80, Controls(help=True))
    assert [line[2:17].strip() for line in lines[2:9]] == [key for key, _ in HELP]


def test_the_filter_and_the_pause_are_shown() -> None:
    lines = shown(24, 100, Controls(filter="bo", paused=True, sort=SortKey.CPU))
    assert lines[0].endswith("by cpu  /bo  PAUSED")
    assert [line.split()[1] for line in lines[5:6]] == ["embed"]
    assert "no job matches xyz" in shown(24, 80, Controls(filter="xyz"))


def test_a_long_list_scrolls_to_the_selected_job() -> None:
    world = status(*(job(number) for number in range(1, 101)))
    lines = texts(frame(world, Size(12, 80), Controls(selected="60"), ASCII))
    ids = [line.split()[0] for line in lines[3:11]]
    assert "60" in ids
    assert len(ids) == 8
    assert texts(frame(world, Size(12, 80), Controls(selected="100"), ASCII))[10].startswith("100 ")


def test_devices_leave_space_for_the_jobs() -> None:
    view = machine(*(device(f"gpu-{number}", 1) for number in range(16)))
    lines = texts(frame(status(running(1), view=view), Size(24, 80), Controls(), ASCII))
    assert sum(line.startswith("a100:") for line in lines) == 7
    assert "~ 9 more devices" in lines
    assert any(line.startswith("1  job-1") for line in lines)


def test_a_fault_of_a_device_stands_in_its_bar() -> None:
    view = machine(device("gpu-a", 1, fault="XID 79: the GPU has fallen off the bus"))
    lines = texts(frame(status(view=view), Size(24, 80), Controls(), ASCII))
    assert lines[2] == "a100 [XID 79: the GPU has fallen off the bus]"
    assert lines[3] == "no jobs"


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        (SortKey.ARRIVAL, "12345"),
        (SortKey.GPU_MEMORY, "32145"),
        (SortKey.CPU, "12354"),
        (SortKey.MEMORY, "12345"),
        (SortKey.NAME, "23145"),
        (SortKey.TIME, "12345"),
    ],
)
def test_jobs_are_sorted_inside_their_groups(sort: SortKey, order: str) -> None:
    rows = rows_of(busy_status(), Controls(sort=sort))
    assert "".join(each.id for each in rows) == order


def test_a_bar_is_exact() -> None:
    parts = (Part("1", 4), Part("22", 2, Style.JOB_1))
    line = bar(parts, used=8, total=16, width=18, glyphs=ASCII)
    assert "".join(piece.text for piece in line) == "[1===22##........]"
    over = bar((Part("1", 20),), used=4, total=16, width=18, glyphs=ASCII)
    assert "".join(piece.text for piece in over) == "[1===============]"
    assert bar(parts, 8, 16, 4, ASCII) == ()


def test_a_page_for_a_pipe_is_not_cut() -> None:
    lines = texts(text_frame(busy_status(), None, ASCII))
    assert any(line.endswith("the most that is free is 12 GiB; starts in about 1m00s") for line in lines)
    assert lines[-1].endswith("fairlead adopt 77")


@settings(max_examples=150, deadline=None)
@given(
    rows=st.integers(0, 40),
    columns=st.integers(0, 130),
    name=st.text(max_size=30),
    reason=st.text(max_size=60),
    controls=st.builds(
        Controls,
        selected=st.sampled_from(("", "1", "9")),
        sort=st.sampled_from(SortKey),
        filter=st.sampled_from(("", "a")),
        typing=st.booleans(),
        help=st.booleans(),
        paused=st.booleans(),
    ),
    unicode=st.booleans(),
)
def test_no_size_and_no_text_breaks_a_frame(
    rows: int, columns: int, name: str, reason: str, controls: Controls, unicode: bool
) -> None:
    wanted = Requested(gpu_memory=Bytes(GI))
    world = status(
        running(1, "gpu-a", 1, 2, name=name),
        job(2, name=name, user=name, reason=reason, requested=wanted),
        view=machine(device("gpu-a", 3, model=name)),
        warnings=(reason,),
    )
    lines = frame(world, Size(rows, columns), controls, UNICODE if unicode else ASCII)
    assert len(lines) == rows
    for line in texts(lines):
        assert cells_of(line) <= columns
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", line)


@given(st.text(max_size=20), st.integers(0, 25))
def test_a_text_takes_no_more_cells_than_it_may(text: str, width: int) -> None:
    assert cells_of(clip(text, width, "~")) <= width
    assert cells_of(pad(text, width)) == width


def test_the_page_shows_a_true_frame_and_every_key() -> None:
    lines = texts(frame(busy_status(), Size(24, 80), Controls(), UNICODE))[:11]
    assert "\n".join(lines) + "\n" in blocks("docs/reference/top.md")
    text = (ROOT / "docs/reference/top.md").read_text()
    assert all(f"`{key}`" in text for key, _ in HELP[1:])
