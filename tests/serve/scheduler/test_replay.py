"""Recorded events can be replayed: the effects are the same, byte for byte, in any process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairlead.cache.types import NODES, PODS
from fairlead.catalog import Catalog
from fairlead.cli.main import main
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.errors import ClusterUnavailableError, ConflictError, RecordingError
from fairlead.serve.machine.events import Start, Tick
from fairlead.serve.machine.flow import Answered
from fairlead.serve.machine.recording import Recorder, encode_effects, read_events, read_header
from fairlead.serve.scheduler.events import Cycle, Explain, Synced
from fairlead.serve.scheduler.machine import SchedulerMachine
from fairlead.serve.scheduler.replay import EVENTS, open_recording, recorder
from tests.serve.scheduler.objects import pod
from tests.serve.scheduler.simulated import SimulatedReplica, settings_of
from tests.serve.scheduler.test_machine import ReplicaStateMachine


def replica_with_history() -> SimulatedReplica:
    """Return a replica that has led, bound, preempted, waited for volumes and lost requests."""
    play = ReplicaStateMachine()
    play.a_replica_leads()
    play.create_pod(1024, named=True)
    play.create_pod(512, named=False, volume=True)
    play.run_undisturbed(0, 6)
    play.provision()
    play.run_undisturbed(0, 6)
    play.replicas[0].relist()
    play.preempt(2048, volume=False, steps=12)
    play.create_gang(1024, 0)
    play.replicas[0].observe_all()
    play.replicas[0].work()
    play.deliver(0, "lost")
    play.run_undisturbed(0, 12)
    uid = next(list_object_.metadata.uid for list_object_ in play.api.list_objects(PODS))
    play.replicas[0].handle(Explain("default", "pod-2", uid))
    assert play.api.evicted, "a pod was preempted"
    return play.replicas[0]


def write_recording(replica: SimulatedReplica, path: Path) -> Path:
    """Write the events and effects of a replica to a file."""
    writing = recorder(path, settings_of(replica.name))
    for event, now, effects in replica.history:
        writing.event(event, now)
        writing._file.write((effects or encode_effects([])) + b"\n")
    writing.close()
    return path


def test_a_recording_replayed_gives_the_same_effects_whatever_the_order_of_sets(tmp_path: Path) -> None:
    path = write_recording(replica_with_history(), tmp_path / "recording")
    for seed in ("1", "2", "3"):
        ran = subprocess.run(
            [sys.executable, "-m", "fairlead", "replay", str(path), "-o", "json"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
        )
        result = json.loads(ran.stdout)
        assert (ran.returncode, result["same"], result["problem"]) == (0, True, None)
        assert result["effects"] > 40


def test_an_effect_that_differs_is_named_with_both_versions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_recording(replica_with_history(), tmp_path / "recording")
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b'"effect":"Bind"' in line)
    lines[at] = lines[at].replace(b"/binding", b"/bindinG")
    path.write_bytes(b"".join(lines))
    assert main(["replay", str(path), "-o", "json"]) == 1
    problem = json.loads(capsys.readouterr().out)["problem"]
    assert problem["event"] == at // 2
    assert "/bindinG" in str(problem["recorded"])
    assert "/bindinG" not in str(problem["replayed"])


def test_a_crash_is_repeated_with_its_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "recording"
    machine, writing = SchedulerMachine(Catalog({}), settings_of("one")), recorder(path, settings_of("one"))
    for event in (Start(0.0, "n"), Synced(claims=True)):
        writing.event(event, 1.0)
        writing.effects(machine.handle(event, 1.0))
    writing.event(Answered(1, None), 2.0)  # an empty Lease: no client returns that
    writing.close()
    assert main(["replay", str(path)]) == 1
    printed = capsys.readouterr()
    assert "Traceback" in printed.out
    assert "election.py" in printed.out
    assert "event 3: TypeError" in printed.err
    assert "the recording ends here too" in printed.err


def test_a_line_that_no_scheduler_wrote_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "recording"
    writing = recorder(path, settings_of("one"))
    writing.event(ObjectChange(None, pod("a")), 1.0)
    writing.effects([])
    writing.close()
    path.write_bytes(path.read_bytes().replace(b'"kind":"LivePod"', b'"kind":"Cat"'))
    assert main(["replay", str(path)]) == 2
    assert "event 1" in capsys.readouterr().err


def test_a_recording_that_was_cut_off_is_replayed_as_far_as_it_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_recording(replica_with_history(), tmp_path / "recording")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    assert main(["replay", str(path), "--effects"]) == 0
    text = capsys.readouterr().out
    assert "every effect is as recorded" in text
    assert "RenewLease" in text


def test_every_kind_of_event_is_read_as_it_was_written(tmp_path: Path) -> None:
    away = ClusterUnavailableError("no answer", "wait")
    away.maybe_done = True
    old, new = pod("a"), pod("a", 2, on="n", mib=1024)
    events: list[Any] = [
        Start(1.5, "n"),
        ObjectChange(None, old),
        ObjectChange(old, new),
        ObjectChange(new, None),
        ObjectChange(pod("b"), pod("b", 3)),
        Answered(1, b'{"kind": "Pod"}'),
        Answered(2, (old, new)),
        Answered(3, ()),
        Answered(4),
        Answered(5, error=away),
        Answered(6, error=ConflictError("later", code=409, reason="Conflict")),
        Tick(12.25),
        Cycle(),
        Explain("default", "a", "uid", 2.5),
    ]
    with (tmp_path / "recording").open("wb") as file:
        writing = Recorder(file, {})
        for number, each in enumerate(events):
            writing.event(each, number / 7)
            writing.effects([])
    with (tmp_path / "recording").open("rb") as file:
        lines = iter(file)
        read_header(lines, "it")
        replayed = [*read_events(lines, EVENTS, "it")]
    assert [each.now for each in replayed] == [number / 7 for number in range(len(events))]
    for each, event in zip(replayed, events, strict=True):
        if isinstance(event, Answered) and event.error is not None:
            assert type(each.event.error) is type(event.error)
            assert vars(each.event.error) == vars(event.error)
        elif isinstance(event, Answered):
            assert (each.event.id, list(each.event.answer or ())) == (event.id, list(event.answer or ()))
        else:
            assert each.event == event


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not a recording"),
        ("[]\n", "not a recording"),
        ('{"format": "fairlead-recording", "version": 9}\n', "version 9"),
        ('{"format": "fairlead-recording", "version": 1}\n', "settings"),
    ],
)
def test_a_file_that_is_no_recording_is_an_error_that_names_it(
    text: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "it").write_text(text)
    with (tmp_path / "it").open("rb") as file, pytest.raises(RecordingError, match=f"it: .*{problem}"):
        open_recording(file, "it", Catalog({}))


def test_a_recording_overwrites_no_file_and_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "it"
    recorder(path, settings_of("one")).close()
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(RecordingError, match="exists"):
        recorder(path, settings_of("one"))
    with pytest.raises(RecordingError, match="No such file"):
        recorder(tmp_path / "none" / "it", settings_of("one"))


def test_the_recorded_kinds_have_unique_names() -> None:
    assert EVENTS.kinds["LivePod"] is PODS.type
    assert EVENTS.kinds["Node"] is NODES.type
    assert len(set(EVENTS.kinds.values())) == len(EVENTS.kinds)
