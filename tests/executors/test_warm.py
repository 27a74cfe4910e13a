"""Functions and models as the warm process of a worker."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from fairlead.errors import JobError
from fairlead.executors.warm import ExecutionFailure, WarmProcess, WarmSpec

_CODE = """
import os, sys
CALLS = 0

def count(path):
    global CALLS
    CALLS += 1
    print("seen", path)
    return {"bytes": os.path.getsize(path), "call": CALLS}

def text(path):
    return open(path).read().upper()

def both(path, result):
    with open(result, "wb") as out:
        out.write(open(path, "rb").read()[::-1])

def nothing(path):
    return None

def moody(path):
    content = open(path).read()
    if content == "bad":
        raise ValueError("not\\na number")
    if content == "crash":
        os.write(2, b"out of luck\\n")
        os._exit(7)
    if content == "odd":
        return object()
    return "fine"
"""


@contextmanager
def warm(folder: Path, name: str, log: "list[str] | None" = None) -> Iterator[WarmProcess]:
    (folder / "app.py").write_text(_CODE)
    lines = [] if log is None else log
    process = WarmProcess(WarmSpec("function", f"app.py:{name}", str(folder)), lines.append)
    with closing(process):
        process.start()
        yield process


def run(process: WarmProcess, folder: Path, content: str) -> "bytes | ExecutionFailure":
    (folder / "input").write_text(content)
    failure = process.run(str(folder / "input"), str(folder / "result"))
    return failure or (folder / "result").read_bytes()


@pytest.mark.parametrize(
    ("name", "result"),
    [("text", b"ABC"), ("both", b"cba"), ("nothing", b""), ("count", b'{"bytes": 3, "call": 1}\n')],
)
def test_the_result_is_what_a_function_returns_or_writes(tmp_path: Path, name: str, result: bytes) -> None:
    with warm(tmp_path, name) as process:
        assert run(process, tmp_path, "abc") == result


def test_a_function_stays_loaded_and_what_it_prints_is_its_log(tmp_path: Path) -> None:
    log: list[str] = []
    with warm(tmp_path, "count", log) as process:
        run(process, tmp_path, "abc")
        assert run(process, tmp_path, "abcd") == b'{"bytes": 4, "call": 2}\n'
    assert log == [f"seen {tmp_path / 'input'}"] * 2


def test_an_error_costs_its_input_alone_and_a_crash_as_well(tmp_path: Path) -> None:
    with warm(tmp_path, "moody") as process:
        assert run(process, tmp_path, "bad") == ExecutionFailure(1, "ValueError: not a number")
        assert run(process, tmp_path, "crash") == ExecutionFailure(7, "the process ended with 7: out of luck")
        assert run(process, tmp_path, "good") == b"fine"
        odd = run(process, tmp_path, "odd")
        assert isinstance(odd, ExecutionFailure)
        assert odd.error.startswith("TypeError: Object of type object")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("app.py:none", "no function or class 'none'"),
        ("gone.py:text", "cannot be imported"),
        ("app", "is not a function"),
    ],
)
def test_a_function_that_is_not_there_is_said_before_the_first_input(
    tmp_path: Path, target: str, why: str
) -> None:
    (tmp_path / "app.py").write_text(_CODE)
    process = WarmProcess(WarmSpec("function", target, str(tmp_path)), lambda line: None)
    with pytest.raises(JobError, match=why):
        process.start()


def test_an_input_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import os\ndef wait(path):\n    open(path).read()\n")
    os.mkfifo(tmp_path / "input")
    process = WarmProcess(WarmSpec("function", "slow.py:wait", str(tmp_path)), lambda line: None)
    with closing(process):
        process.start()
        process.interrupt()
        failure = process.run(str(tmp_path / "input"), str(tmp_path / "result"))
    assert failure is not None
    assert failure.exit == -9
