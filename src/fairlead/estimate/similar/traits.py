"""What is known of a model without running it, first as words and amounts, then as columns of numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Columns = NDArray[np.intp]
Mask = NDArray[np.bool_]

_WIDTH = 1.5
"""How far, in standard deviations, models resemble one another."""


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """A model as predictions see it."""

    name: str
    """The same name is the same model; a digest will do."""
    words: frozenset[str] = frozenset()
    """What its name is made of: models of one family share words."""
    views: tuple[Mapping[str, float], ...] = ()
    """Amounts of work by name (`macs`, `params`, `bytes.conv`), once for every way of counting them.

    Two views serve where runtimes differ in what they run, such as with and without dead code.
    """


@dataclass(frozen=True, slots=True)
class TraitMatrix:
    """Models as rows of numbers; all sheets of one vocabulary can be compared."""

    views: tuple[Array, ...]
    """By view, models x amounts; nan where an amount is not known."""
    words: Array
    """Models x vocabulary: 1 where a model has the word."""
    counts: Array
    """How many words each model has, those outside the vocabulary too."""

    def take(self, rows: Columns) -> "TraitMatrix":
        """Return some of the models."""
        return TraitMatrix(tuple(view[rows] for view in self.views), self.words[rows], self.counts[rows])

    def with_rows(self, other: "TraitMatrix") -> "TraitMatrix":
        """Return these models and, after them, those of another sheet of the same vocabulary."""
        views = tuple(np.vstack(pair) for pair in zip(self.views, other.views, strict=True))
        return TraitMatrix(views, np.vstack([self.words, other.words]), np.append(self.counts, other.counts))


@dataclass(frozen=True, slots=True)
class TraitColumns:
    """The order of amounts and words in the columns of a sheet."""

    amounts: tuple[tuple[str, ...], ...]
    words: Mapping[str, int]

    @classmethod
    def of(cls, models: Iterable[ModelTraits]) -> "TraitColumns":
        """Collect every amount and word, in the order in which they come."""
        amounts: list[dict[str, None]] = []
        words: dict[str, int] = {}
        for model in models:
            for index, view in enumerate(model.views):
                if index == len(amounts):
                    amounts.append({})
                amounts[index].update(dict.fromkeys(view))
            for word in sorted(model.words):
                words.setdefault(word, len(words))
        return cls(tuple(tuple(view) for view in amounts), words)

    def trait_matrix(self, models: Sequence[ModelTraits]) -> TraitMatrix:
        """Write models down in these columns; what the vocabulary lacks is left out."""
        views = tuple(
            np.array([_amounts(model, index, names) for model in models]).reshape(len(models), len(names))
            for index, names in enumerate(self.amounts)
        )
        words = np.zeros((len(models), len(self.words)))
        for row, model in enumerate(models):
            words[row, [self.words[word] for word in model.words if word in self.words]] = 1
        return TraitMatrix(views, words, np.array([float(len(model.words)) for model in models]))


@dataclass(frozen=True, slots=True)
class TraitScale:
    """What is usual among known models: fills gaps, and says how alike two models are."""

    usual: tuple[Array, ...]
    """By view, the median of every amount; nan where no known model has it."""
    centre: Array
    spread: Array

    @classmethod
    def of(cls, known: TraitMatrix) -> "TraitScale":
        """Learn it from models that are known."""
        logs = _logs(known)
        seen = ~np.isnan(logs)
        count = np.maximum(seen.sum(0), 1)
        centre = np.where(seen, logs, 0).sum(0) / count
        spread = np.sqrt(np.where(seen, (logs - centre) ** 2, 0).sum(0) / count)
        useful = (seen.sum(0) > len(logs) / 2) & (spread > 1e-6)
        return cls(tuple(_medians(view) for view in known.views), centre, np.where(useful, spread, np.inf))

    def design(self, sheet: TraitMatrix) -> Array:
        """Return a constant, then the amounts of all views; unknown ones as usual."""
        parts: list[Array] = [np.ones((len(sheet.counts), 1))]
        for view, usual in zip(sheet.views, self.usual, strict=True):
            parts.append(np.nan_to_num(np.where(np.isnan(view), usual, view)))
        return np.hstack(parts)

    def parts(self) -> list[Columns]:
        """Return for each view which columns of a design are its own, the constant among them."""
        ends = np.cumsum([1, *(len(usual) for usual in self.usual)])
        return [np.append(0, np.arange(first, last)) for first, last in pairwise(ends)]

    def similarity(self, left: TraitMatrix, right: TraitMatrix) -> Array:
        """Return a kernel, `left` x `right`, over the logarithms of amounts and over words."""
        one, two = self._points(left), self._points(right)
        size = max(int(np.isfinite(self.spread).sum()), 1)
        linear = one @ two.T / size
        square = (one**2).sum(1)[:, None] + (two**2).sum(1)[None, :] - 2 * one @ two.T
        near = np.exp(-np.maximum(square, 0) / (2 * _WIDTH**2 * size)) if one.shape[1] else 0.0
        shared = left.words @ right.words.T
        either = left.counts[:, None] + right.counts[None, :] - shared
        kernel: Array = linear + near + shared / np.maximum(either, 1)
        return kernel

    def _points(self, sheet: TraitMatrix) -> Array:
        points: Array = np.nan_to_num((_logs(sheet) - self.centre) / self.spread)
        return points


def _amounts(model: ModelTraits, index: int, names: Sequence[str]) -> list[float]:
    view = model.views[index] if index < len(model.views) else {}
    return [view.get(name, np.nan) for name in names]


def _medians(view: Array) -> Array:
    columns = [column[~np.isnan(column)] for column in view.T]
    return np.array([np.median(column) if len(column) else np.nan for column in columns])


def _logs(sheet: TraitMatrix) -> Array:
    """Return the logarithms of all amounts, and of what the first of a view is to each of the others."""
    found: list[Array] = [np.zeros((len(sheet.counts), 0))]
    for view in sheet.views:
        logs = np.log1p(view)
        found += [logs, logs[:, :1] - logs[:, 1:]]
    return np.hstack(found)
