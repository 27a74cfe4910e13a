"""Whole pipelines with real processes: nothing is lost, repeated or reordered where that is promised."""

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import PipelineFailedError
from tests.pipeline.pipelines import STAGES, lines, run, sequences

LIMIT = 60


def test_a_block_edge_delivers_every_frame_in_order(tmp_path: Path) -> None:
    status = run(
        """
pipeline: all
fuse: false
stages:
  - {name: camera, source: numbers, options: {count: 500}}
  - {name: number, run: "$S:number"}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
""",
        tmp_path,
    )
    assert sequences(tmp_path) == list(range(500))
    assert [(edge["sent"], edge["taken"], sum(edge["dropped"].values())) for edge in status["edges"]] == [
        (500, 500, 0)
    ] * 2


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_newest", "latest_only", "sample(3)"])
def test_every_drop_is_counted_at_twice_the_capacity(tmp_path: Path, policy: str) -> None:
    status = run(
        f"""
pipeline: overload
stages:
  - {{name: camera, source: numbers, options: {{count: 150, rate: 200}}}}
  - {{name: slow, run: "$S:slow"}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}}}
edges:
  - {{from: camera, to: slow, policy: {policy}, depth: 2}}
  - {{from: slow, to: log}}
""",
        tmp_path,
    )
    (edge,) = status["edges"]
    dropped = sum(edge["dropped"].values())
    assert edge["sent"] == edge["received"] == 150 == edge["taken"] + dropped
    assert dropped > 0
    written = sequences(tmp_path)
    assert len(written) == edge["taken"]
    assert written == sorted(set(written))


def test_no_frame_is_lost_or_repeated_when_each_worker_is_killed(tmp_path: Path) -> None:
    victims = ["camera", "number", "log"]
    killed: list[tuple[str, int]] = []

    def kill_the_next(status: dict[str, Any]) -> None:
        """Kill the next worker once the sink has gone on after the last one was killed."""
        written = status["stages"][-1]["out"]
        alive = len(status["processes"]) == len(victims)
        if len(killed) < len(victims) and alive and written > (killed[-1][1] if killed else 0):
            name = victims[len(killed)]
            os.kill(status["processes"][name], signal.SIGKILL)
            killed.append((name, written))

    status = run(
        """
pipeline: crashes
fuse: false
stages:
  - {name: camera, source: numbers, options: {count: 400, rate: 100}, on_error: restart}
  - {name: number, run: "$S:number", on_error: restart}
  - {name: log, sink: jsonl, options: {path: out.jsonl}, on_error: restart}
""",
        tmp_path,
        kill_the_next,
    )
    assert [name for name, _ in killed] == victims
    assert [stage["restarts"] for stage in status["stages"]] == [1, 1, 1]
    assert sequences(tmp_path) == list(range(400))


def test_no_worker_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        f"""
pipeline: endless
fuse: false
stages:
  - {{name: camera, source: numbers, options: {{rate: 50}}}}
  - {{name: number, run: "{STAGES}:number"}}
  - {{name: show, sink: stdout}}
"""
    )
    child = subprocess.Popen(
        [sys.executable, "-m", "fairlead", "pipeline", "run", str(file)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    try:
        assert b'"sequence": 0' in child.stdout.readline()
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        workers = [os.pidfd_open(int(pid)) for pid in children]
        assert len(workers) == 3
    finally:
        child.kill()
        child.wait(LIMIT)
        child.stdout.close()
    for descriptor in workers:
        assert select.select([descriptor], [], [], LIMIT)[0], "a process that has ended is readable"
        os.close(descriptor)


def test_two_ordered_replicas_make_the_same_as_one(tmp_path: Path) -> None:
    for replicas in (1, 2):
        status = run(
            f"""
pipeline: replicas
stages:
  - {{name: camera, source: numbers, options: {{count: 120}}}}
  - {{name: uneven, run: "$S:uneven", replicas: {replicas}}}
  - {{name: log, sink: jsonl, options: {{path: {replicas}.jsonl}}}}
""",
            tmp_path,
        )
    assert lines(tmp_path, "2.jsonl") == lines(tmp_path, "1.jsonl")
    assert sequences(tmp_path, "2.jsonl") == list(range(120))
    assert len(status["stages"][1]["workers"]) == 2


def test_a_graph_joins_by_sequence_number_also_where_a_branch_filters(tmp_path: Path) -> None:
    status = run(
        """
pipeline: graph
stages:
  - {name: camera, source: numbers, options: {count: 100}}
  - {name: odd, run: "$S:odd"}
  - {name: all, run: "$S:uneven", replicas: 2}
  - {name: both, run: "$S:both"}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
edges:
  - {from: camera, to: odd, depth: 2}
  - {from: camera, to: all, depth: 2}
  - {from: odd, to: both, depth: 2}
  - {from: all, to: both, depth: 2}
  - {from: both, to: log}
""",
        tmp_path,
    )
    assert sequences(tmp_path) == list(range(1, 100, 2))
    assert all(line["value"]["left"] == line["value"]["right"] for line in lines(tmp_path))
    for edge in status["edges"]:
        assert edge["sent"] == edge["taken"] + sum(edge["dropped"].values()), edge


def test_batches_are_bounded_and_complete(tmp_path: Path) -> None:
    run(
        """
pipeline: batches
stages:
  - {name: camera, source: numbers, options: {count: 50}}
  - {name: sizes, run: "$S:sizes", batch: {most: 4, wait: 50ms}}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
""",
        tmp_path,
    )
    values = [line["value"] for line in lines(tmp_path)]
    assert [value["n"] for value in values] == list(range(50))
    assert {value["batch"] for value in values} <= {1, 2, 3, 4}
    assert max(value["batch"] for value in values) > 1


def test_batches_that_choose_their_size_grow_where_a_call_has_a_fixed_cost(tmp_path: Path) -> None:
    status = run(
        """
pipeline: batches
stages:
  - {name: camera, source: numbers, options: {count: 300}}
  - {name: costly, run: "$S:costs_a_call", batch: {auto: true, most: 16, latency: 5s}}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
""",
        tmp_path,
    )
    values = [line["value"] for line in lines(tmp_path)]
    assert sequences(tmp_path) == list(range(300))
    assert [value["n"] for value in values] == [number % 251 for number in range(300)]
    seen = {value["batch"] for value in values}
    assert 1 in seen, "nothing is known at first"
    assert 2 < max(seen) <= 16
    batch = status["stages"][1]["batch"]
    assert 1 < batch["size"] <= batch["most"] <= 16
    assert 0 <= batch["wait"] < 5
    assert [stage["batch"] for stage in (status["stages"][0], status["stages"][2])] == [None, None]


FAILING = """
pipeline: failing
stages:
  - {{name: camera, source: numbers, options: {{count: 20}}}}
  - {{name: check, run: "$S:{function}", on_error: {policy}, timeout: 500ms}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}}}
"""


@pytest.mark.parametrize(
    ("function", "line"),
    [
        ("raises_at_seven", "stage check, frame 7: raised ValueError: seven is not allowed"),
        ("dies_at_seven", "stage check, frame 7: its process ended with exit code 9"),
        ("blocks_at_seven", "stage check, frame 7: blocked for longer than its timeout of 500ms"),
        (
            "wrong_dtype",
            "stage check, frame 0: returned an array of float32 with the shape 4x4x3: its output is Image",
        ),
    ],
)
def test_a_stage_that_fails_is_named_in_one_line(tmp_path: Path, function: str, line: str) -> None:
    with pytest.raises(PipelineFailedError) as caught:
        run(FAILING.format(function=function, policy="stop"), tmp_path)
    assert str(caught.value) == line
    assert "on_error" in caught.value.hint


def test_a_stage_that_leaks_is_named_with_its_limit(tmp_path: Path) -> None:
    text = FAILING.format(function="leaks", policy="stop").replace("count: 20", "rate: 50")
    with pytest.raises(PipelineFailedError) as caught:
        run(text.replace("timeout: 500ms", "memory: 256Mi"), tmp_path)
    assert re.fullmatch(
        r"stage check(, frame \d+)?: its process holds \S+( \S+)?, more than its memory of 256 ?MiB?",
        str(caught.value),
    ), caught.value


@pytest.mark.parametrize("function", ["raises_at_seven", "dies_at_seven"])
def test_skip_drops_the_frame_that_fails_and_no_other(tmp_path: Path, function: str) -> None:
    run(FAILING.format(function=function, policy="skip"), tmp_path)
    assert sequences(tmp_path) == [*range(7), *range(8, 20)]


def test_a_frame_that_ends_its_stage_twice_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(PipelineFailedError, match="for the second time with this frame"):
        run(FAILING.format(function="dies_at_seven", policy="restart"), tmp_path)
    assert sequences(tmp_path) == list(range(7))


def test_replicas_without_order_deliver_every_frame_once(tmp_path: Path) -> None:
    run(
        """
pipeline: unordered
stages:
  - {name: camera, source: numbers, options: {count: 100}}
  - {name: uneven, run: "$S:uneven", replicas: 2, ordered: false}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
""",
        tmp_path,
    )
    assert sorted(sequences(tmp_path)) == list(range(100))


@pytest.mark.parametrize("pinned", [True, False])
def test_a_process_has_its_cores_and_as_many_threads(tmp_path: Path, pinned: bool) -> None:
    core = min(os.sched_getaffinity(0))
    run(
        f"""
pipeline: pinned
stages:
  - {{name: camera, source: numbers, options: {{count: 2}}}}
  - {{name: where, run: "$S:where", cores: {[core] if pinned else []}}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}}}
""",
        tmp_path,
    )
    cores = [core] if pinned else sorted(os.sched_getaffinity(0))
    assert [line["value"] for line in lines(tmp_path)] == [{"cores": cores, "threads": ["1"]}] * 2


def test_a_generator_makes_several_values_of_a_frame(tmp_path: Path) -> None:
    run(
        """
pipeline: several
fuse: false
stages:
  - {name: camera, source: numbers, options: {count: 5}}
  - {name: twice, run: "$S:twice"}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
""",
        tmp_path,
    )
    assert sequences(tmp_path) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert [next(iter(line["value"])) for line in lines(tmp_path)] == ["first", "second"] * 5


def test_a_source_begins_when_every_stage_is_open_and_a_drop_edge_loses_nothing(tmp_path: Path) -> None:
    status = run(
        """
pipeline: start
stages:
  - {name: camera, source: generator, options: {function: "$S:stamped", arguments: {count: 8}}}
  - {name: model, run: "$S:OpensSlowly"}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
edges:
  - {from: camera, to: model, policy: drop_oldest, depth: 8}
  - {from: model, to: log}
""",
        tmp_path,
    )
    assert [line["value"]["after"] for line in lines(tmp_path)] == [True] * 8
    assert status["edges"][0]["dropped"] == {}
