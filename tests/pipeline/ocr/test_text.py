"""The recogniser's probabilities as texts, its characters, and the texts of a page."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.pipeline.ocr.convert import main
from examples.pipeline.ocr.golden import missing
from examples.pipeline.ocr.text import Decode, decode, read_characters, text
from tests.pipeline.ocr.coloured import write_networks

CHARACTERS = ("", "a", "b", " ")


def steps(numbers: str, probability: float = 0.7) -> Any:
    """Return probabilities whose largest are at these numbers, one for each step."""
    made = np.full((len(numbers), len(CHARACTERS)), (1 - probability) / 3, np.float32)
    made[range(len(numbers)), [int(number) for number in numbers]] = probability
    return made


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ("", ""),
        ("000", ""),
        ("1", "a"),
        ("0110", "a"),
        ("11011", "aa"),
        ("1212", "abab"),
        ("0111223312", "ab ab"),
        ("2000000", "b"),
        ("0000002", "b"),
    ],
)
def test_repeated_characters_are_one_unless_something_is_between(numbers: str, expected: str) -> None:
    found, score = decode(steps(numbers), CHARACTERS)
    assert found == expected
    assert score == pytest.approx(0.7 if expected else 0)


def test_the_score_is_the_mean_of_the_first_step_of_each_letter() -> None:
    line = np.concatenate([steps("1", 0.9), steps("1", 0.5), steps("0", 0.99), steps("2", 0.5)])
    found, score = decode(line, CHARACTERS)
    assert found == "ab"
    assert score == pytest.approx(0.7)


def test_the_characters_are_between_nothing_and_a_space(tmp_path: Path) -> None:
    path = tmp_path / "characters.txt"
    path.write_text("a\n\u3000\n\x85\nb\n", encoding="utf-8")
    assert read_characters(path) == ("", "a", "\u3000", "\x85", "b", " ")
    path.write_text("a\nb\n", encoding="utf-8")
    stage = Decode(path)
    stage.open()
    made = stage.process(np.stack([steps("1022"), steps("0000")]))
    assert made == {"texts": ["ab", ""], "scores": [0.7, 0.0]}
    with pytest.raises(ValueError, match=r"has 9 characters, characters\.txt .* are 4"):
        stage.process(np.zeros((1, 5, 9), np.float32))


def test_a_page_has_its_texts_with_their_places() -> None:
    box = [[1.4, 2.6], [9.0, 3.0], [9.0, 7.0], [1.0, 7.0]]
    found = {"boxes": np.array([box, box, box]), "scores": np.ones(3)}
    decoded = {"texts": ["ab", "", "b"], "scores": [0.8, 0.0, 0.49]}
    assert text(found, decoded) == {
        "lines": [{"text": "ab", "score": 0.8, "box": [[1, 3], [9, 3], [9, 7], [1, 7]]}]
    }
    nothing = {"boxes": np.empty((0, 4, 2)), "scores": np.empty(0)}
    assert text(nothing, {"texts": ["a"], "scores": [0.9]}) == {"lines": []}


def test_a_model_without_characters_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    write_networks(tmp_path)
    assert main([str(tmp_path / "recognise.onnx"), str(tmp_path / "out.txt")]) == 2
    assert "the metadata has no 'character'" in capsys.readouterr().err
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_spaces_do_not_count_against_the_golden_lines() -> None:
    records = ['{"value": {"lines": [{"text": "twowords"}, {"text": "other"}]}}', '{"value": {"lines": []}}']
    assert missing(["two words", "three"], records) == ["three"]
