"""Files that are replaced: what is new is taken, what is broken is said once."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.serve.web.reloaded import ReloadedFiles, error_text


class Number:
    """A number in a file, and what was said about it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.said: list[str] = []
        self.reads = 0

    def read(self) -> int:
        self.reads += 1
        return int(self.path.read_text())

    def rotated(self) -> ReloadedFiles[int]:
        return ReloadedFiles((str(self.path),), self.read, self.said.append)

    def write(self, text: str) -> None:
        """Replace the file; by rename, as everybody does who wants readers to see the old or the new one."""
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)


@pytest.fixture
def number(tmp_path: Path) -> Number:
    made = Number(tmp_path / "number")
    made.write("1")
    return made


def test_reads_only_what_changed(number: Number) -> None:
    rotated = number.rotated()
    assert [rotated.current(), rotated.current()] == [1, 1]
    assert number.reads == 1
    number.write("2")
    assert [rotated.current(), rotated.current()] == [2, 2]
    assert number.reads == 2


def test_writing_over_a_file_is_a_change_too(number: Number) -> None:
    rotated = number.rotated()
    number.path.write_text("2")
    os.utime(number.path, ns=(1, 1))
    assert rotated.current() == 2


def test_what_is_broken_is_said_once_and_changes_nothing(number: Number) -> None:
    rotated = number.rotated()
    number.write("x")
    assert [rotated.current(), rotated.current()] == [1, 1]
    assert len(number.said) == 1
    number.path.unlink()
    assert [rotated.current(), rotated.current()] == [1, 1]
    assert number.said[1:] == [f"{number.path}: No such file or directory: what was loaded before stays"]
    number.write("3")
    assert rotated.current() == 3


def test_what_is_read_in_the_middle_of_a_change_is_read_again(number: Number) -> None:
    def read() -> int:
        value = number.read()
        if value == 2:
            number.write("3")  # whoever rotates is not done yet
            raise ValueError("half of it")
        return value

    rotated = ReloadedFiles((str(number.path),), read, number.said.append)
    number.write("2")
    assert rotated.current() == 3
    assert number.said == []


def test_there_is_no_start_without_a_value(number: Number) -> None:
    number.write("x")
    with pytest.raises(ValueError, match="invalid literal"):
        number.rotated()


@given(st.lists(st.sampled_from(["1", "2", "x", ""]), max_size=8))
def test_the_value_is_that_of_the_last_file_that_could_be_used(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    number = Number(tmp_path_factory.mktemp("rotated") / "number")
    number.write("0")
    rotated = number.rotated()
    for step, text in enumerate(texts):
        number.write(text)
        good = [each for each in ("0", *texts[: step + 1]) if each.isdigit()]
        assert rotated.current() == int(good[-1])


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
