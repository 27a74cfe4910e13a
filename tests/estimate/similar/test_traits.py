"""Models as rows of a trait matrix."""

import numpy as np
import pytest

from fairlead.estimate.similar.traits import ModelTraits, TraitColumns, TraitScale

MODELS = [
    ModelTraits("a", frozenset({"resnet", "50"}), ({"macs": 4e9, "params": 25e6},)),
    ModelTraits("b", frozenset({"resnet", "18"}), ({"macs": 2e9, "params": 11e6},)),
    ModelTraits("c", frozenset({"vit"}), ({"macs": 17e9},)),
]


def test_the_median_replaces_an_unknown_amount() -> None:
    matrix = TraitColumns.of(MODELS).trait_matrix(MODELS)
    design = TraitScale.of(matrix).design(matrix)
    assert design[:, 0].tolist() == [1, 1, 1]
    assert design[2].tolist() == [1, 17e9, 18e6]


def test_a_model_is_most_like_itself() -> None:
    models = [*MODELS[:2], ModelTraits("c", frozenset({"vit"}), ({"macs": 17e9, "params": 86e6},))]
    matrix = TraitColumns.of(models).trait_matrix(models)
    kernel = TraitScale.of(matrix).similarity(matrix, matrix)
    assert kernel == pytest.approx(kernel.T)
    assert np.linalg.eigvalsh(kernel).min() > -1e-9
    assert kernel[0, 1] > kernel[0, 2]


def test_new_words_and_amounts_are_left_out_but_counted() -> None:
    vocabulary = TraitColumns.of(MODELS)
    matrix = vocabulary.trait_matrix([ModelTraits("d", frozenset({"resnet", "new"}), ({"flops": 1.0},))])
    assert np.isnan(matrix.views[0]).all()
    assert (matrix.words.sum(), matrix.counts.tolist()) == (1, [2])


def test_models_without_traits_are_all_similar() -> None:
    models = [ModelTraits("x"), ModelTraits("y")]
    matrix = TraitColumns.of(models).trait_matrix(models)
    scale = TraitScale.of(matrix)
    assert scale.design(matrix).tolist() == [[1], [1]]
    assert np.ptp(scale.similarity(matrix, matrix)) == 0


def test_views_have_columns_of_their_own() -> None:
    models = [
        ModelTraits("x", views=({"a": 1.0}, {"b": 2.0, "c": 3.0})),
        ModelTraits("y", views=({"a": 4.0},)),
    ]
    matrix = TraitColumns.of(models).trait_matrix(models)
    assert [part.tolist() for part in TraitScale.of(matrix).parts()] == [[0, 1], [0, 2, 3]]
