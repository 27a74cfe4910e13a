"""A join behind an edge that drops under load goes on: it learns of every frame that does not come."""

from pathlib import Path

from tests.pipeline.pipelines import run, sequences


def test_a_join_waits_for_no_frame_that_was_dropped_before_it(tmp_path: Path) -> None:
    status = run(
        """
pipeline: overloaded
stages:
  - {name: camera, source: numbers, options: {count: 120, rate: 300}}
  - {name: slow, run: "$S:slow"}
  - {name: fast, run: "$S:odd"}
  - {name: both, run: "$S:both"}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
edges:
  - {from: camera, to: slow, policy: drop_oldest, depth: 2}
  - {from: camera, to: fast, depth: 2}
  - {from: slow, to: both, depth: 2}
  - {from: fast, to: both, depth: 2}
  - {from: both, to: log}
""",
        tmp_path,
    )
    written = sequences(tmp_path)
    assert written == sorted(set(written))
    for edge in status["edges"]:
        assert edge["sent"] == edge["taken"] + sum(edge["dropped"].values()), edge
    assert status["edges"][0]["dropped"]["oldest"] > 0
