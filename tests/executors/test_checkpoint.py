"""Programs that save themselves and go on elsewhere."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.errors import JobError
from fairlead.executors.checkpoint import (
    CheckpointedCommand,
    CheckpointHook,
    FolderShelf,
    Moved,
    SavedInput,
)
from fairlead.executors.warm import ExecutionFailure

COUNTER = """
import os, signal, sys
source, state, log = sys.argv[1:4]
done = int(open(sys.argv[4]).read()) if len(sys.argv) > 4 else 0
with open(log, "a") as out:
    out.write(f"begins at {done}\\n")
words = open(source).read().split()
def save(*_):
    with open(state + ".part", "w") as out:
        out.write(str(done))
    os.replace(state + ".part", state)
signal.signal(signal.SIGUSR1, save)
while done < len(words):
    if words[done] == "gate" and not os.path.exists(words[done + 1]):
        open(words[done + 1] + ".reached", "w").close()
        signal.pause()
        continue
    done += 1
print(f"{done} words")
"""
SAVE = """
import os, signal, sys, time
pid, state = int(sys.argv[1]), sys.argv[2]
os.kill(pid, signal.SIGUSR1)
for _ in range(2000):
    if os.path.exists(state):
        sys.exit(0)
    time.sleep(0.005)
sys.exit("it did not save itself")
"""


class Machine:
    """A machine that works on a job, with a folder of its own and the job's shelf."""

    def __init__(self, root: Path, name: str, every: float = 60.0) -> None:
        self.folder = root / name
        self.folder.mkdir()
        for file, text in (("count.py", COUNTER), ("save.py", SAVE)):
            (self.folder / file).write_text(text)
        python, log = sys.executable, str(root / "log")
        program = (python, str(self.folder / "count.py"), "{input}", "{checkpoint}", log)
        hook = CheckpointHook(
            (python, str(self.folder / "save.py"), "{pid}", "{checkpoint}"), (*program, "{checkpoint}"), every
        )
        self.log: list[str] = []
        self.command = CheckpointedCommand(program, hook, FolderShelf(str(root / "shelf")), self.log.append)
        self.item = SavedInput(
            "ab", str(root / "input"), str(self.folder / "result"), str(self.folder / "checkpoint")
        )


@contextmanager
def machine(root: Path, name: str, every: float = 60.0) -> Iterator[Machine]:
    made = Machine(root, name, every)
    with closing(made.command):
        yield made


@contextmanager
def interrupted_at(gate: Path, one: Machine) -> Iterator[None]:
    def wait() -> None:
        while not Path(f"{gate}.reached").exists():
            threading.Event().wait(0.01)
        one.command.interrupt()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()


def test_an_input_moves_to_another_machine_and_goes_on(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    (tmp_path / "input").write_text(f"one two three gate {gate} six")
    with machine(tmp_path, "device") as device, interrupted_at(gate, device):
        assert device.command.run(device.item) == Moved(saved=True)
    gate.touch()
    with machine(tmp_path, "pod") as pod:
        assert pod.command.run(pod.item) is None
    assert Path(pod.item.target).read_text() == "6 words\n"
    assert (tmp_path / "log").read_text() == "begins at 0\nbegins at 3\n"
    assert os.listdir(tmp_path / "shelf") == []


def test_an_input_with_a_result_from_elsewhere_is_given_up_and_not_saved(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    (tmp_path / "input").write_text(f"one gate {gate} four")
    with machine(tmp_path, "device") as device:
        device.command.drop("another")

        def drop() -> None:
            while not Path(f"{gate}.reached").exists():
                threading.Event().wait(0.01)
            device.command.drop("another")
            device.command.drop("ab")

        thread = threading.Thread(target=drop)
        thread.start()
        assert device.command.run(device.item) == Moved(saved=False)
        thread.join()
        assert not (tmp_path / "shelf").exists()
        gate.touch()
        (tmp_path / "input").write_text("one two")
        next_item = replace(device.item, digest="cd")
        assert device.command.run(next_item) is None


def test_a_program_saves_itself_from_time_to_time(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    (tmp_path / "input").write_text(f"one gate {gate} four")
    with machine(tmp_path, "device", every=0.1) as device:
        thread = threading.Thread(target=lambda: device.command.run(device.item))
        thread.start()
        while not (tmp_path / "shelf" / "ab").exists():
            threading.Event().wait(0.01)
        assert (tmp_path / "shelf" / "ab").read_text() == "1"
        device.command.interrupt()
        thread.join()


def test_a_program_that_cannot_save_begins_again(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    (tmp_path / "input").write_text(f"one gate {gate} four")
    with machine(tmp_path, "device") as device, interrupted_at(gate, device):
        (device.folder / "save.py").write_text("import sys; sys.exit('no room')")
        assert device.command.run(device.item) == Moved(saved=False)
    assert "no room" in device.log[-1]
    gate.touch()
    with machine(tmp_path, "pod") as pod:
        assert pod.command.run(pod.item) is None
    assert (tmp_path / "log").read_text() == "begins at 0\nbegins at 0\n"


def test_a_program_that_fails_is_said_with_its_last_line(tmp_path: Path) -> None:
    (tmp_path / "input").write_text("gate")
    with machine(tmp_path, "device") as device:
        failure = device.command.run(device.item)
    assert failure == ExecutionFailure(1, "IndexError: list index out of range")


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"save": ["kill", "{pid}"]}, "needs save and resume"),
        ({"save": ["kill", "{pid}"], "resume": ["go"]}, "has no {checkpoint}"),
        ({"save": ["kill"], "resume": ["go", "{checkpoint}"]}, "neither {pid} nor"),
        ({"save": 3, "resume": ["go"]}, "needs save and resume"),
    ],
    ids=["no resume", "no file", "no program", "no words"],
)
def test_a_hook_that_is_none_is_refused(document: dict[str, object], why: str) -> None:
    with pytest.raises(JobError, match=why):
        CheckpointHook.of(document)
