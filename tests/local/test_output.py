"""The output of submitted jobs: the last lines, what follows, and what is kept."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import LedgerError
from fairlead.local import output


def last(folder: Path, text: bytes, lines: int | None) -> bytes:
    path = folder / "file"
    path.write_bytes(text)
    handle = os.open(path, os.O_RDONLY)
    try:
        output.seek_last_lines(handle, lines)
        return b"".join(output.read_on(handle))
    finally:
        os.close(handle)


@given(st.lists(st.sampled_from([b"a", b"\n", b"\xff\x00", b"b" * 70_000]), max_size=9), st.integers(0, 6))
def test_the_last_lines_are_those_of_splitlines(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], lines: int
) -> None:
    text = b"".join(parts)
    pieces = [line + b"\n" for line in text.split(b"\n")]
    pieces[-1] = pieces[-1][:-1]
    pieces = [piece for piece in pieces if piece]
    folder = tmp_path_factory.getbasetemp()
    assert last(folder, text, lines) == b"".join(
        pieces[len(pieces) - lines :] if lines < len(pieces) else pieces
    )
    assert last(folder, text, None) == text


def test_what_is_written_before_the_end_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    over = False

    def write_more() -> None:
        nonlocal over
        with path.open("ab") as file:
            file.write(b"two\n")
        over = True

    with path.open("rb") as file:
        blocks = list(output.follow(file.fileno(), lambda: over, write_more))
    assert blocks == [b"one\n", b"two\n"]


@pytest.mark.parametrize(
    ("ages", "kept"),
    [
        pytest.param(
            {number: 31 if number < 5 else 29 for number in range(105)}, range(5, 105), id="by age, in days"
        ),
        pytest.param(dict.fromkeys(range(100), 20_000), range(100), id="a clock that has jumped"),
        pytest.param({number: number / 100 for number in range(1005)}, range(5, 1005), id="by number"),
    ],
)
def test_outputs_of_ended_jobs_are_removed(tmp_path: Path, ages: dict[int, float], kept: range) -> None:
    folder = Path(output.make_output_folder(str(tmp_path)))
    assert folder.stat().st_mode & 0o777 == 0o700
    now = 2e9
    for name, age in [*((str(number), age) for number, age in ages.items()), ("2000", 400), ("mine", 400)]:
        (folder / f"{name}.log").touch()
        os.utime(folder / f"{name}.log", (now, now - age * 24 * 3600))
    output.prune_outputs(str(tmp_path), {"2000"}, now)
    assert {path.stem for path in folder.iterdir()} == {"2000", "mine", *map(str, kept)}


def test_a_folder_of_outputs_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "output").touch()
    with pytest.raises(LedgerError, match="/output/: File exists: the output of jobs cannot be kept"):
        output.make_output_folder(str(tmp_path))
