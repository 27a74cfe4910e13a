"""The stages behind the recogniser: its probabilities as texts, and the texts of a page as one record."""

from pathlib import Path
from typing import Any, Final

import numpy as np

from fairlead.pipeline import Record, stage, tensor

CHARACTERS: Final = Path(__file__).with_name("data") / "characters.txt"
"""A line for each character that the recogniser knows, made by convert.py."""
LEAST_SCORE: Final = 0.5
"""The mean probability of its characters from which on a text counts."""
Array = np.ndarray[Any, Any]


@stage(inputs=tensor("float32", (None, None, None)), outputs=Record)
class Decode:
    """Turns the recogniser's output (lines, steps, characters) into texts and their scores."""

    def __init__(self, path: Path = CHARACTERS) -> None:
        self._path = path
        self._characters: tuple[str, ...] = ()

    def open(self) -> None:
        """Read the characters."""
        self._characters = read_characters(self._path)

    def process(self, probabilities: Any) -> dict[str, Any]:
        """Return the text of each line, and the mean probability of its characters."""
        if probabilities.shape[2] != len(self._characters):
            raise ValueError(
                f"the recogniser has {probabilities.shape[2]} characters, {self._path.name} and the two "
                f"that every recogniser has are {len(self._characters)}"
            )
        lines = [decode(line, self._characters) for line in probabilities]
        return {"texts": [text for text, _ in lines], "scores": [round(score, 3) for _, score in lines]}


def read_characters(path: Path) -> tuple[str, ...]:
    """Return the characters by their numbers: none between two letters, those of the file, a space."""
    return "", *path.read_text(encoding="utf-8").removesuffix("\n").split("\n"), " "


def decode(probabilities: Array, characters: tuple[str, ...]) -> tuple[str, float]:
    """Return the text of one line by connectionist temporal classification: the likeliest of each step.

    A character that follows itself is the same letter; number 0 is between two letters.
    """
    best = probabilities.argmax(1)
    new = np.flatnonzero((best != 0) & (best != np.concatenate([[0], best[:-1]])))
    text = "".join(characters[number] for number in best[new])
    return text, float(probabilities[new, best[new]].mean()) if len(new) else 0.0


@stage(outputs=Record)
def text(found: Any, decoded: Any) -> dict[str, Any]:
    """Return the texts of a page in reading order, each with its score and the corners of its region."""
    lines = zip(
        found["boxes"].tolist(), decoded["texts"], decoded["scores"], strict=False
    )  # no region: one text
    return {
        "lines": [
            {"text": words, "score": score, "box": [[round(x), round(y)] for x, y in box]}
            for box, words, score in lines
            if words and score >= LEAST_SCORE
        ]
    }
