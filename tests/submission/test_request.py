"""What a job asks for, the files it takes along, and the record that lets a machine go on with it."""

import os
from pathlib import Path

import pytest

from fairlead.errors import JobError, TransferError
from fairlead.executors.checkpoint import CheckpointHook
from fairlead.submission.along import gather_files, read_files, upload_files
from fairlead.submission.record import (
    SubmissionRecord,
    load_record,
    record_path,
    remove_record,
    save_record,
)
from fairlead.submission.request import JobRequest, TakenFile, check_command
from fairlead.submission.run import InputChoice
from tests.submission.worlds import session

HOOK = CheckpointHook(("kill", "-USR1", "{pid}"), ("go", "{checkpoint}", "{input}"), 5.0)
RECORD = SubmissionRecord("ab12", "/in", "/in", follow=True, out="/out", slots=2, works=True)


@pytest.mark.parametrize(
    "request_",
    [
        JobRequest("command", ("wc", "{input}"), "words", checkpoint=HOOK),
        JobRequest("function", ("app.py:run",), files=(TakenFile("app.py", "ab" * 32, 7),), follow=True),
        JobRequest("model", ("m.onnx",), on=("pod",), policy="server", options={"resize": [224, 224]}),
    ],
    ids=["command", "function", "model"],
)
def test_a_job_is_read_as_it_was_written(request_: JobRequest) -> None:
    assert JobRequest.of(request_.to_json()) == request_


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({}, "cannot be understood"),
        ({"command": ["a"], "files": [{"name": "../a", "digest": "b", "size": 1}]}, "not the name of a file"),
        ({"command": ["a"], "checkpoint": {"save": ["kill"]}}, "needs save and resume"),
    ],
    ids=["empty", "path", "checkpoint"],
)
def test_a_job_that_cannot_be_worked_on_is_refused(document: dict[str, object], why: str) -> None:
    with pytest.raises(JobError, match=why):
        JobRequest.of(document)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (JobRequest("command", ("true",)), "where its input goes"),
        (JobRequest("model", ("m.onnx",), checkpoint=HOOK), "made by commands"),
    ],
    ids=["no input", "checkpoint"],
)
def test_a_command_says_where_its_input_goes(request_: JobRequest, why: str) -> None:
    with pytest.raises(JobError, match=why):
        check_command(request_)


def test_files_are_taken_along_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("print(1)")
    with session(tmp_path / "store") as shop, shop.door.client() as client:
        files = read_files([str(tmp_path / "app.py")])
        for _ in range(2):
            upload_files(client, files)
        fetched: list[str] = []

        def fetch(place: str, target: str) -> None:
            fetched.append(place)
            client.fetch(place.lstrip("/"), target)

        for _ in range(2):
            gather_files([taken for taken, _ in files], str(tmp_path / "worker"), fetch)
    assert (tmp_path / "worker" / "app.py").read_text() == "print(1)"
    assert fetched == [f"/jobs/with/{files[0][0].digest}/app.py"]


def test_a_file_that_arrives_as_another_is_refused(tmp_path: Path) -> None:
    def fetch(place: str, target: str) -> None:
        del place
        Path(target).write_text("abc")

    taken = TakenFile("app.py", "ab" * 32, 3)
    with pytest.raises(TransferError, match="another file"):
        gather_files([taken], str(tmp_path / "w"), fetch)

    assert os.listdir(tmp_path / "w") == []


def test_two_files_of_one_name_cannot_go_along(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "app.py").write_text(folder)
    with pytest.raises(JobError, match="the same name"):
        read_files([str(tmp_path / folder / "app.py") for folder in ("a", "b")])
    with pytest.raises(JobError, match="no such file"):
        read_files([str(tmp_path / "gone")])


def test_a_record_is_kept_until_it_is_removed(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    assert load_record(environ, "ab12") is None
    save_record(environ, RECORD)
    assert load_record(environ, "ab12") == RECORD
    remove_record(environ, "ab12")
    assert load_record(environ, "ab12") is None
    Path(record_path(environ, "ab12")).write_text("{")
    with pytest.raises(JobError, match="cannot be read"):
        load_record(environ, "ab12")
    with pytest.raises(JobError, match="not the id"):
        load_record(environ, "../ab12")


@pytest.mark.parametrize(
    ("inputs", "base", "follow", "why"),
    [
        ("gone", None, False, "no such file or folder"),
        (".", "sub", False, "--base is of a list"),
        ("list", None, True, "--follow takes a folder"),
        ("-", None, True, "--follow takes a folder"),
        ("-", "gone", False, "no such folder"),
    ],
    ids=["gone", "base of a folder", "follow a list", "follow a pipe", "no base"],
)
def test_inputs_that_make_no_sense_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inputs: str, base: "str | None", follow: bool, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list").write_text("a\n")
    (tmp_path / "sub").mkdir()
    with pytest.raises(JobError, match=why):
        InputChoice.of(inputs, base, follow=follow)


def test_inputs_are_chosen_with_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list").write_text("a\n")
    assert InputChoice.of(".", None, follow=True) == InputChoice(str(tmp_path), str(tmp_path), follow=True)
    assert InputChoice.of("list", None, follow=False) == InputChoice(
        str(tmp_path / "list"), str(tmp_path), follow=False
    )
    assert InputChoice.of("-", "..", follow=False) == InputChoice("-", str(tmp_path.parent), follow=False)
