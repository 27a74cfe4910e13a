"""Files that are replaced: new content is loaded, invalid content is logged once."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.serve.web.reloaded import ReloadedFiles, error_text


class Number:
    """A number in a file, and the log lines about it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        self.reads = 0

    def read(self) -> int:
        self.reads += 1
        return int(self.path.read_text())

    def reloaded(self) -> ReloadedFiles[int]:
        return ReloadedFiles((str(self.path),), self.read, self.lines.append)

    def write(self, text: str) -> None:
        """Replace the file by rename, so that readers see the old or the new one."""
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)


@pytest.fixture
def number(tmp_path: Path) -> Number:
    made = Number(tmp_path / "number")
    made.write("1")
    return made


def test_loads_only_changed_files(number: Number) -> None:
    reloaded = number.reloaded()
    assert [reloaded.current(), reloaded.current()] == [1, 1]
    assert number.reads == 1
    number.write("2")
    assert [reloaded.current(), reloaded.current()] == [2, 2]
    assert number.reads == 2


def test_overwriting_a_file_is_a_change_too(number: Number) -> None:
    reloaded = number.reloaded()
    number.path.write_text("2")
    os.utime(number.path, ns=(1, 1))
    assert reloaded.current() == 2


def test_an_invalid_file_is_logged_once_and_changes_nothing(number: Number) -> None:
    reloaded = number.reloaded()
    number.write("x")
    assert [reloaded.current(), reloaded.current()] == [1, 1]
    assert len(number.lines) == 1
    number.path.unlink()
    assert [reloaded.current(), reloaded.current()] == [1, 1]
    assert number.lines[1:] == [f"{number.path}: No such file or directory: the last files stay in use"]
    number.write("3")
    assert reloaded.current() == 3


def test_a_file_read_during_a_change_is_read_again(number: Number) -> None:
    def read() -> int:
        value = number.read()
        if value == 2:
            number.write("3")  # the rotation is not finished yet
            raise ValueError("half of it")
        return value

    reloaded = ReloadedFiles((str(number.path),), read, number.lines.append)
    number.write("2")
    assert reloaded.current() == 3
    assert number.lines == []


def test_the_first_load_must_succeed(number: Number) -> None:
    number.write("x")
    with pytest.raises(ValueError, match="invalid literal"):
        number.reloaded()


@given(st.lists(st.sampled_from(["1", "2", "x", ""]), max_size=8))
def test_the_value_is_that_of_the_last_valid_file(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    number = Number(tmp_path_factory.mktemp("reloaded") / "number")
    number.write("0")
    reloaded = number.reloaded()
    for step, text in enumerate(texts):
        number.write(text)
        good = [each for each in ("0", *texts[: step + 1]) if each.isdigit()]
        assert reloaded.current() == int(good[-1])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "No such file"), "No such file"),
        (ValueError("bad"), "bad"),
        (OSError(), "OSError"),
    ],
)
def test_errors_in_words(error: Exception, words: str) -> None:
    assert error_text(error) == words
