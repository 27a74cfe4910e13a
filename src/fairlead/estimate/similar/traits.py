"""The traits of a model that are known without a run, first as words and amounts, then as numeric columns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Columns = NDArray[np.intp]
Mask = NDArray[np.bool_]

_WIDTH = 1.5
"""The width of the kernel over models, in standard deviations."""


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """The traits of one model."""

    name: str
    """The same name is the same model; a digest can serve as the name."""
    words: frozenset[str] = frozenset()
    """The words of its name: models of one family share words."""
    views: tuple[Mapping[str, float], ...] = ()
    """Amounts of work by name (`macs`, `params`, `bytes.conv`), once for every way of counting them.

    Two views serve where runtimes differ in what they run, such as with and without dead code.
    """


@dataclass(frozen=True, slots=True)
class TraitMatrix:
    """Models as rows of numbers; all matrices of one vocabulary can be compared."""

    views: tuple[Array, ...]
    """By view, models x amounts; nan where an amount is not known."""
    words: Array
    """Models x vocabulary: 1 where a model has the word."""
    counts: Array
    """The number of words of each model, those outside the vocabulary included."""

    def take(self, rows: Columns) -> "TraitMatrix":
        """Return some of the models."""
        return TraitMatrix(tuple(view[rows] for view in self.views), self.words[rows], self.counts[rows])

    def with_rows(self, other: "TraitMatrix") -> "TraitMatrix":
        """Return these models and, after them, those of another matrix of the same vocabulary."""
        views = tuple(np.vstack(pair) for pair in zip(self.views, other.views, strict=True))
        return TraitMatrix(views, np.vstack([self.words, other.words]), np.append(self.counts, other.counts))


@dataclass(frozen=True, slots=True)
class TraitColumns:
    """The order of amounts and words in the columns of a trait matrix."""

    amounts: tuple[tuple[str, ...], ...]
    words: Mapping[str, int]

    @classmethod
    def of(cls, models: Iterable[ModelTraits]) -> "TraitColumns":
        """Collect every amount and word, in the order of the models."""
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
        """Return models as rows of these columns; words and amounts outside the vocabulary are left out."""
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
    """The typical values of known models: they fill gaps, and scale the similarity of two models."""

    medians: tuple[Array, ...]
    """By view, the median of every amount; nan where no known model has it."""
    centre: Array
    spread: Array

    @classmethod
    def of(cls, known: TraitMatrix) -> "TraitScale":
        """Return the scale of known models."""
        logs = _logs(known)
        present = ~np.isnan(logs)
        count = np.maximum(present.sum(0), 1)
        centre = np.where(present, logs, 0).sum(0) / count
        spread = np.sqrt(np.where(present, (logs - centre) ** 2, 0).sum(0) / count)
        useful = (present.sum(0) > len(logs) / 2) & (spread > 1e-6)
        return cls(tuple(_medians(view) for view in known.views), centre, np.where(useful, spread, np.inf))

    def design(self, trait_matrix: TraitMatrix) -> Array:
        """Return a constant, then the amounts of all views; the median replaces unknown ones."""
        parts: list[Array] = [np.ones((len(trait_matrix.counts), 1))]
        for view, medians in zip(trait_matrix.views, self.medians, strict=True):
            parts.append(np.nan_to_num(np.where(np.isnan(view), medians, view)))
        return np.hstack(parts)

    def parts(self) -> list[Columns]:
        """Return for each view its columns of a design, the constant among them."""
        ends = np.cumsum([1, *(len(medians) for medians in self.medians)])
        return [np.append(0, np.arange(first, last)) for first, last in pairwise(ends)]

    def similarity(self, left: TraitMatrix, right: TraitMatrix) -> Array:
        """Return a kernel, `left` x `right`, over the logarithms of amounts and over words."""
        one, two = self._points(left), self._points(right)
        size = max(int(np.isfinite(self.spread).sum()), 1)
        linear = one @ two.T / size
        square = (one**2).sum(1)[:, None] + (two**2).sum(1)[None, :] - 2 * one @ two.T
        near = np.exp(-np.maximum(square, 0) / (2 * _WIDTH**2 * size)) if one.shape[1] else 0.0
        shared = left.words @ right.words.T
        union = left.counts[:, None] + right.counts[None, :] - shared
        kernel: Array = linear + near + shared / np.maximum(union, 1)
        return kernel

    def _points(self, trait_matrix: TraitMatrix) -> Array:
        points: Array = np.nan_to_num((_logs(trait_matrix) - self.centre) / self.spread)
        return points


def _amounts(model: ModelTraits, index: int, names: Sequence[str]) -> list[float]:
    view = model.views[index] if index < len(model.views) else {}
    return [view.get(name, np.nan) for name in names]


def _medians(view: Array) -> Array:
    columns = [column[~np.isnan(column)] for column in view.T]
    return np.array([np.median(column) if len(column) else np.nan for column in columns])


def _logs(trait_matrix: TraitMatrix) -> Array:
    """Return the logarithms of all amounts, and of the ratios of a view's first amount to each other one."""
    columns: list[Array] = [np.zeros((len(trait_matrix.counts), 0))]
    for view in trait_matrix.views:
        logs = np.log1p(view)
        columns += [logs, logs[:, :1] - logs[:, 1:]]
    return np.hstack(columns)
