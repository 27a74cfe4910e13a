"""A program as a stage: whatever it does wrong is named in one line, and nothing of it is left."""

import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.errors import PipelineError, PipelineFailedError
from fairlead.pipeline.frame import FrameHeader
from fairlead.pipeline.ports import tensor
from fairlead.pipeline.programs.process import ProgramError, find_program, probe_program
from fairlead.pipeline.programs.runner import ProgramAnswer, ProgramLostError, ProgramRunner
from fairlead.pipeline.spec import StageRole, StageSpec
from fairlead.units import Seconds
from tests.pipeline.pipelines import lines, plan, run, sequences
from tests.pipeline.programs import faulty

LIMIT = 60
FAULTY = str(Path(faulty.__file__))
PYTHON = (sys.executable, "-IS", FAULTY)
COMMAND = f"{sys.executable}, -IS, {FAULTY}"


def stage(fault: str, **options: Any) -> StageSpec:
    """Return the stage of a program with a fault."""
    return StageSpec("check", StageRole.EXEC, FAULTY, options, command=(*PYTHON, fault))


def answers(runner: ProgramRunner, count: int) -> list[ProgramAnswer]:
    """Send frames, and return as many answers; the error that comes instead of one is raised."""
    found: list[ProgramAnswer] = []
    sent = 0
    while len(found) < count:
        while runner.has_room and sent < count:
            runner.offer(FrameHeader(0, sent, 1.0, epoch=3), [np.full((2, 3), sent, np.uint8)])
            sent += 1
        reading, writing = runner.descriptors()
        assert any(select.select(reading, writing, [], LIMIT))
        found += runner.exchange()
    return found


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("exits", "its program ended with exit code 1: cannot find the weights"),
        ("text", "its program sent b'Hello, world!\\n' where a frame header begins"),
        ("version", "its program speaks version 2 of the protocol, not 1"),
        ("frames", "its program sent a hello with frames 1000: 1 to 64 are possible"),
        ("port", "its program sent a hello with out: 'Imago' is not a type of port"),
        ("refuses", "its program says: no weights found"),
        ("no-json", "its program sent a hello that is not JSON"),
        ("frame-first", "its program sent another message before its hello"),
        ("silent", "its program sent no hello within 300ms"),
    ],
)
def test_a_program_that_does_not_greet_is_named(fault: str, message: str) -> None:
    seconds = Seconds(0.3 if fault == "silent" else LIMIT)
    with pytest.raises(ProgramError) as caught:
        probe_program((*PYTHON, fault), "", "check", 1, seconds)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("dies", "its program ended with signal 9 (SIGKILL): seven"),
        ("inside", "its program ended with exit code 3 inside a message: seven"),
        ("nonsense", "its program sent b'\\x7fELF"),
        ("length", "its program sent a frame header of 2147483648 bytes: 96 to 4096 are possible"),
        ("huge", "its program sent a payload of 8589934592 bytes: at most 536870912 are possible"),
        ("order", "its program answered frame 6 before frame 7"),
        ("control", "its program sent control message 9, which does not exist"),
    ],
)
def test_a_program_that_breaks_the_protocol_is_lost(fault: str, message: str) -> None:
    runner = ProgramRunner(stage(fault), "", 1)
    with pytest.raises(ProgramLostError) as caught:
        answers(runner, 10)
    assert str(caught.value).startswith(message)
    assert runner.oldest is not None
    assert runner.oldest.sequence == 7
    runner.close()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("dtype", "returned an array of float32 with the shape 1: its output is Tensor(uint8)"),
        ("two", "its program sent 2 values: it sends one"),
        ("record", "its program sent a record that is not a JSON object, but a list"),
        ("error", "its program says: the lens is dirty"),
        ("filter", ""),
    ],
)
def test_a_frame_that_fails_leaves_the_program_running(fault: str, message: str) -> None:
    runner = ProgramRunner(
        StageSpec("check", StageRole.EXEC, FAULTY, outputs=tensor("uint8"), command=(*PYTHON, fault)), "", 1
    )
    found = answers(runner, 10)
    runner.close()
    assert [each.header.sequence for each in found] == list(range(10))
    assert (found[7].fault, found[7].value) == (message, None)
    others = [each for each in found if each.header.sequence != 7]
    assert all((each.value == each.header.sequence).all() and not each.fault for each in others)
    assert runner.counters.frames_out == 9


def test_an_answer_too_many_is_refused() -> None:
    runner = ProgramRunner(stage("twice", frames=1), "", 1)
    assert len(answers(runner, 8)) == 8
    with pytest.raises(ProgramLostError, match=r"sent frame 7, and no frame|answered frame 7 before"):
        answers(runner, 9)
    runner.close()


def test_frames_in_flight_are_bounded_by_both_sides() -> None:
    for most, expected in ((64, 4), (3, 3)):
        runner = ProgramRunner(stage("none", frames=most), "", 1)
        sent = 0
        while runner.has_room:
            runner.offer(FrameHeader(0, sent, 1.0), [np.zeros(4, np.uint8)])
            sent += 1
        assert sent == expected
        runner.close()


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    (tmp_path / "folder").mkdir()
    for word, message in (
        ("no-such-program", "program 'no-such-program' is not found in PATH"),
        ("./missing", f"program {tmp_path}/./missing does not exist"),
        ("./plain", f"program {tmp_path}/./plain is not executable"),
        ("./folder", f"program {tmp_path}/./folder is a folder"),
    ):
        with pytest.raises(ProgramError) as caught:
            find_program(word, str(tmp_path))
        assert str(caught.value) == message
        assert caught.value.hint
    (tmp_path / "plain").chmod(0o755)
    (tmp_path / "plain").write_bytes(b"\x7fELFnot")
    with pytest.raises(ProgramError, match=r"exit code 126: .*plain cannot be executed: Exec format error"):
        probe_program(("./plain",), str(tmp_path), "check", 1, Seconds(LIMIT))


OWNER = """
import os, sys
from fairlead.pipeline.programs.process import ProgramProcess
print(ProgramProcess(sys.argv[1:], "", print)._child.pid, flush=True)
sys.stdin.read()
"""


def test_a_program_that_does_nothing_ends_with_its_worker() -> None:
    command = [sys.executable, "-c", OWNER, *PYTHON, "silent"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        descriptor = os.pidfd_open(int(owner.stdout.readline()))
        owner.kill()
        assert select.select([descriptor], [], [], LIMIT)[0], "a process that has ended is readable"
        os.close(descriptor)


FAILING = f"""
pipeline: failing
stages:
  - {{{{name: camera, source: numbers, options: {{{{count: 20}}}}}}}}
  - {{{{name: check, exec: [{COMMAND}, {{fault}}], on_error: {{policy}}, timeout: {{timeout}}}}}}
  - {{{{name: log, sink: jsonl, options: {{{{path: out.jsonl}}}}}}}}
"""


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("dies", "stage check, frame 7: its program ended with signal 9 (SIGKILL): seven"),
        ("blocks", "stage check, frame 7: blocked for longer than its timeout of 1s"),
    ],
)
def test_stop_names_stage_and_frame(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], fault: str, line: str
) -> None:
    with pytest.raises(PipelineFailedError) as caught:
        run(
            FAILING.format(fault=fault, policy="stop", timeout="1s" if fault == "blocks" else "60s"), tmp_path
        )
    assert str(caught.value) == line
    assert "check: seven\n" in capfd.readouterr().err, "the standard error of a program is the log of a run"


@pytest.mark.parametrize("fault", ["dies", "error"])
def test_skip_gives_up_one_frame(tmp_path: Path, fault: str) -> None:
    run(FAILING.format(fault=fault, policy="skip", timeout="60s"), tmp_path)
    assert sequences(tmp_path) == [*range(7), *range(8, 20)]


def test_programs_join_and_their_ports_are_checked(tmp_path: Path) -> None:
    text = f"""
pipeline: graph
stages:
  - {{name: camera, source: numbers, options: {{count: 5}}}}
  - {{name: left, exec: [{COMMAND}, none], replicas: 2}}
  - {{name: join, exec: [{COMMAND}, first]}}
  - {{name: number, run: "$S:number"}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}}}
edges:
  - {{from: camera, to: left}}
  - {{from: camera, to: join}}
  - {{from: left, to: join}}
  - {{from: join, to: number}}
  - {{from: number, to: log}}
"""
    run(text, tmp_path)
    assert [line["value"]["n"] for line in lines(tmp_path)] == list(range(5))
    with pytest.raises(
        PipelineError, match=r"edge join->number: join makes Tensor\(uint8\), and number takes"
    ):
        plan(text.replace('run: "$S:number"', 'run: "$S:odd", in: Record'), tmp_path)
    with pytest.raises(PipelineError, match=r"the file says Record, and the stage itself Tensor\(uint8\)"):
        plan(text.replace("first]", "first], in: Record"), tmp_path)
    with pytest.raises(PipelineError, match="a program has no batches"):
        plan(text.replace("replicas: 2", "batch: {most: 2}"), tmp_path)
