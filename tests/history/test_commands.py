"""Keys of commands: which command lines are the same command, as tables."""

from pathlib import Path

import pytest

from fairlead.history.commands import command_keys, command_name, model_digest

HERE = "/work/project"

SAME_PROGRAM = [
    ("python train.py --lr 1", "python train.py --lr 2"),
    ("python train.py", "python ./train.py"),
    ("python train.py", "python /work/project/train.py"),
    ("python -u -W ignore train.py --a", "python train.py"),
    ("python -m pkg.train --a", "python -m pkg.train --b"),
    ("python3.11 -mpkg.train", "python3.11 -m pkg.train"),
    ("node --require x.js app.js 1", "node app.js 2"),
    ("bash -eo pipefail script.sh", "bash script.sh"),
    ("python -Wignore::DeprecationWarning train.py", "python train.py"),
    ("bash script.sh 1", "bash -e script.sh 2"),
    ("java -Xmx4g -jar app.jar a", "java -jar ./app.jar b"),
    ("java -cp lib Main a", "java -cp lib Main b"),
    ("env A=1 B=2 python train.py", "python train.py --x"),
    ("env -u A nice -n 5 time -f %e python train.py", "python train.py"),
    ("timeout -k 5 60 python train.py", "python train.py"),
    ("./infer 1", "/work/project/infer 2"),
]
OTHER_PROGRAM = [
    ("python train.py", "python test.py"),
    ("python train.py", "node train.py"),
    ("python -m pkg.train", "python -m pkg.test"),
    ("python -m pkg", "python pkg"),
    ("python -c one", "python -c two"),
    ("sh -c one", "sh -c two"),
    ("bash -lc one", "bash -lc two"),
    ("java -jar a.jar", "java -jar b.jar"),
    ("./infer", "./train"),
]


@pytest.mark.parametrize(("one", "other"), SAME_PROGRAM)
def test_the_same_program_with_other_words_has_one_key(one: str, other: str) -> None:
    first, second = command_keys(one.split(), HERE), command_keys(other.split(), HERE)
    assert first[-1] == second[-1]
    assert len(first) == 2


@pytest.mark.parametrize(("one", "other"), OTHER_PROGRAM)
def test_another_script_module_or_text_is_another_program(one: str, other: str) -> None:
    assert not set(command_keys(one.split(), HERE)) & set(command_keys(other.split(), HERE))


def test_the_exact_words_come_first_and_a_model_before_them() -> None:
    argv = ["python", "train.py", "--lr", "1"]
    exact, program = command_keys(argv, HERE)
    assert command_keys(["env", "A=1", *argv], HERE) == (exact, program)
    assert command_keys([*argv[:3], "2"], HERE)[0] != exact
    assert command_keys(argv, HERE, model="abc")[1:] == (exact, program)
    assert command_keys(argv, HERE, model="abc")[0] == command_keys(["other"], "/", model="abc")[0]
    assert command_keys([], HERE) == ()


@pytest.mark.parametrize("text", ["python train.py --lr 1", "A=1 python 'train.py' --lr  1"])
def test_a_plain_command_in_a_shell_is_that_command(text: str) -> None:
    argv = ["python", "train.py", "--lr", "1"]
    assert command_keys(["/bin/sh", "-c", text], HERE) == command_keys(argv, HERE)


@pytest.mark.parametrize(
    "text", ["python train.py; x", "python $S", "python *.py", "python a\nb", "python 'a"]
)
def test_a_text_that_the_shell_changes_counts_whole(text: str) -> None:
    assert command_keys(["sh", "-c", text], HERE)[0] != command_keys(text.split(), HERE)[0]


def test_a_script_of_another_folder_is_another_program() -> None:
    here, there = (command_keys(["python", "train.py"], cwd) for cwd in ("/a", "/b"))
    assert not set(here) & set(there)


def test_no_key_shows_a_word_of_the_command() -> None:
    keys = command_keys(["python", "train.py", "--token", "secret"], HERE)
    assert not any(word in key for key in keys for word in ("secret", "train", "token"))


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        ("python /work/train.py --lr 1", "train.py"),
        ("python -m pkg.train", "pkg.train"),
        ("java -jar lib/app.jar", "app.jar"),
        ("/usr/bin/infer --fast", "infer"),
        ("env A=1 nice ./infer", "infer"),
        ("python", "python"),
        ("env", "env"),
    ],
)
def test_a_command_is_named_by_what_it_runs(argv: str, name: str) -> None:
    assert command_name(argv.split()) == name


def test_a_name_is_short_and_printable() -> None:
    assert command_name(["sh", "-c", "echo secret; true"]) == "sh -c"
    assert command_name(["sh", "-c", "python train.py --lr 1"]) == "train.py"
    assert command_name(["./a\x1b[31m" + "b" * 100]) == "a\ufffd[31m" + "b" * 54
    assert command_name([]) == ""


def test_a_model_is_known_by_its_size_and_its_ends(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(b"a" * 100)
    one = model_digest(str(model))
    model.write_bytes(b"a" * 99 + b"b")
    assert model_digest(str(model)) != one != ""
    assert model_digest(str(tmp_path / "missing")) == ""
