"""The progress of a run as a record: what is kept, where a run goes on, and who may use the folder."""

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.errors import PipelineError
from fairlead.pipeline.checkpoints import CheckpointStore
from fairlead.pipeline.fuse import RunPlan
from fairlead.pipeline.spec import PipelineSpec
from fairlead.pipeline.state.folder import FILE, StateFolder, open_state
from fairlead.pipeline.state.keeper import RecordKeeper
from fairlead.pipeline.state.kept_run import held_positions
from fairlead.pipeline.state.record import RECORDS, RunPhase, RunRecord, difference, fingerprint
from fairlead.pipeline.state.snapshot import NUMBERS_APART, advance, leave_gaps, reconcile, restored
from tests.pipeline.pipelines import plan

TEXT = """
pipeline: kept
stages:
  - {name: one, source: numbers, options: {count: 9}}
  - {name: two, source: numbers, options: {count: 9}}
  - {name: count, run: "$S:RunningCount", on_error: restart}
  - {name: log, sink: jsonl, options: {path: one.jsonl}}
  - {name: files, sink: file, options: {path: "out/{sequence:03d}.npy"}}
edges:
  - {from: one, to: count}
  - {from: count, to: log}
  - {from: two, to: files}
"""
COUNT, LOG, FILES = "count", "log", "two+files"


def made(tmp_path: Path) -> RunPlan:
    """Return a plan of two streams, one with a state."""
    found = plan(TEXT, tmp_path)
    assert [worker.name for worker in found.workers] == ["one", FILES, COUNT, LOG]
    return found


def record() -> RunRecord:
    """Return the record of a run in its middle."""
    return RunRecord(
        *("run", 3, "boot", {}),
        phase=RunPhase.RUNNING,
        starts={0: 32, 1: 40},
        positions={"log": {0: (35, 1)}, "files": {1: (40, 1)}},
        states={("count", 0): b"at 32"},
    )


def test_a_record_keeps_one_checkpoint_where_a_replay_begins(tmp_path: Path) -> None:
    store = CheckpointStore()
    for label in (32, 48, 64):
        store.add((COUNT, 0, 0), label, b"at %d" % label, 32)
    positions = {LOG: {0: (50, 1)}, FILES: {1: (60, 1)}}
    kept = advance(record(), made(tmp_path), {0: 48, 1: 60}, positions, store, replayable=True)
    assert (kept.starts, kept.states) == ({0: 48, 1: 60}, {("count", 0): b"at 48"})
    assert kept.positions == {"log": {0: (50, 1)}, "files": {1: (60, 1)}}
    back = advance(record(), made(tmp_path), {0: 0, 1: 60}, positions, CheckpointStore(), replayable=True)
    assert (back.starts, back.states) == ({0: 32, 1: 60}, {("count", 0): b"at 32"}), "a start never goes back"
    assert restored(kept, made(tmp_path)) == {(COUNT, 0, 0): b"at 48"}


def test_without_a_replay_the_latest_states_count_and_numbers_go_on(tmp_path: Path) -> None:
    store = CheckpointStore()
    store.add((COUNT, 0, 0), 48, b"at 48", 0)
    kept = advance(record(), made(tmp_path), {0: 55}, {}, store, replayable=False)
    assert (kept.starts, kept.states) == ({0: 55, 1: 40}, {("count", 0): b"at 48"})
    next_run = leave_gaps(kept, made(tmp_path), {"one": False, "two": True})
    assert next_run.starts == {0: 55 + NUMBERS_APART, 1: 40}


@pytest.mark.parametrize(
    ("held", "boot", "starts", "log", "states"),
    [
        ({0: (37, 2)}, "boot", {0: 32, 1: 40}, {0: (37, 2)}, 1),
        ({}, "boot", {0: 32, 1: 40}, {0: (35, 1)}, 1),  # moved away
        ({0: (33, 1)}, "later", {0: 32, 1: 40}, {0: (33, 1)}, 1),
        ({0: (31, 1)}, "later", {0: 0, 1: 40}, {0: (31, 1)}, 0),  # the disk lacks the end
        ({}, "", {0: 0, 1: 40}, {}, 0),
    ],
)
def test_what_a_sink_holds_counts(
    tmp_path: Path, held: object, boot: str, starts: object, log: object, states: int
) -> None:
    found = reconcile(record(), made(tmp_path), {"log": held}, boot)  # type: ignore[dict-item] # of the table
    assert (found.starts, found.positions["log"], len(found.states)) == (starts, log, states)
    assert found.positions["files"] == {1: (40, 1)}


def test_a_stream_without_state_goes_on_behind_what_is_there(tmp_path: Path) -> None:
    found = reconcile(record(), made(tmp_path), {"files": {1: (38, 1)}}, "later")
    assert found.starts == {0: 32, 1: 38}


def test_sinks_say_what_they_hold_also_far_from_the_end(tmp_path: Path) -> None:
    other = '{"stream": 7, "sequence": 1, "value": "%s"}\n' % ("x" * 1000)
    first = '{"stream": 0, "sequence": 5, "value": 1}\n' * 2
    (tmp_path / "one.jsonl").write_text(first + other * 3000 + '{"stream": 0, "seq')
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "012.npy").touch()
    assert held_positions(made(tmp_path)) == {"log": {0: (5, 2), 7: (1, 3000)}, "files": {1: (12, 1)}}
    assert (tmp_path / "one.jsonl").read_text().endswith('{"stream": 0, "seq'), "looking changes nothing"
    (tmp_path / "one.jsonl").unlink()
    assert held_positions(made(tmp_path))["log"] == {}


def test_only_what_matters_to_a_run_may_not_change(tmp_path: Path) -> None:
    old = fingerprint(made(tmp_path).spec)
    changes = {
        "on_error: restart": ("on_error: skip, timeout: 5s", ""),
        "RunningCount": ("number", "stage count has changed"),
        "one.jsonl": ("1.jsonl", "stage log has changed"),
        "pipeline: kept": ("pipeline: kept\nfuse: false", ""),
        "{from: one, to: count}": ("{from: two, to: count}", "edges have changed"),
    }
    for text, (other, line) in changes.items():
        spec = plan(TEXT.replace(text, other), tmp_path).spec if "two, to: count" not in other else None
        new = fingerprint(spec) if spec is not None else old | {"edges": "else"}
        assert difference(old, new) == line, other
    assert difference(old, {**old, "stage more": ""}) == "stage more is new"
    assert difference({**old, "stage more": ""}, old) == "stage more is gone"


def opened(path: Path, spec: PipelineSpec, *, resume: bool = False) -> StateFolder:
    """Open a folder without patience."""
    return open_state(str(path), spec, resume=resume, log=lambda line: None, patience=0)


def test_a_folder_has_one_run_at_a_time_and_a_run_one_name(tmp_path: Path) -> None:
    spec, path = made(tmp_path).spec, tmp_path / "state"
    with opened(path, spec) as first:
        assert first.before is None
        with pytest.raises(PipelineError, match="another run keeps its progress here"):
            opened(path, spec, resume=True)
        worker = os.dup(first.lock)
    with pytest.raises(PipelineError, match="another run"):
        opened(path, spec, resume=True)
    os.close(worker)
    (path / f"{FILE}.7.part").write_text("half")
    with opened(path, spec, resume=True) as second:
        assert second.before is None, "no frame was read"
        assert (second.record.run, second.record.attempt) == (first.record.run, 1)
        assert os.listdir(path) == [FILE]
        second.write(replace(second.record, phase=RunPhase.RUNNING, starts={0: 7}))
    with pytest.raises(PipelineError, match="holds the progress of a run that has not ended"):
        opened(path, spec)
    with opened(path, spec, resume=True) as third:
        assert third.before is not None
        assert (third.record.starts, third.record.attempt) == ({0: 7}, 2)
        third.write(replace(third.record, phase=RunPhase.DONE))
    with opened(path, spec, resume=True) as fourth:
        assert fourth.is_done
    with opened(path, spec) as fifth:
        assert not fifth.is_done
        assert fifth.record.run != first.record.run


def test_a_run_goes_on_where_its_progress_cannot_be_kept(tmp_path: Path) -> None:
    said: list[str] = []
    has_said = threading.Event()

    def say(line: str) -> None:
        said.append(line)
        has_said.set()

    with opened(tmp_path / "state", made(tmp_path).spec) as folder:
        keeper = RecordKeeper(folder, say)
        (tmp_path / "state" / FILE).unlink()
        (tmp_path / "state").rmdir()
        keeper.offer(record())
        assert has_said.wait(60)
        (tmp_path / "state").mkdir()
        keeper.write(record())
        keeper.close()
    assert len(said) == 1
    assert "cannot be kept, and is tried again" in said[0]
    assert RECORDS.decode((tmp_path / "state" / FILE).read_text()) == record()
