"""The parts of a fit: neighbours, residuals, priors."""

import numpy as np
import pytest

from fairlead.estimate.similar import DeviceTraits, MeasurementLibrary, ModelTraits, words
from fairlead.estimate.similar.device import shared_words, word_similarity
from fairlead.estimate.similar.gaussian_process import fit_residuals
from fairlead.estimate.similar.neighbours import neighbour_weights
from fairlead.estimate.similar.prior import device_prior
from tests.estimate.similar.fleet import fleet


def test_words_of_one_aspect_are_compared_with_one_another() -> None:
    one = DeviceTraits("a", (words("Cortex-A72"), words("tflite")))
    two = DeviceTraits("b", (words("Cortex-A53"), words("tflite")))
    assert words("Cortex-A72") == {"cortex", "a", "72"}
    assert word_similarity(one, [one, two, DeviceTraits("c", (frozenset(), frozenset()))]).tolist() == [
        2.0,
        1.5,
        0.0,
    ]
    shares = shared_words([one, two])
    assert shares[:, 0, 1].tolist() == [0.5, 1.0]
    assert (shares.diagonal(axis1=1, axis2=2) == 1).all()


def test_the_last_row_of_a_library_is_the_average_device() -> None:
    library = fleet(4, 6)
    assert library.rows.shape == (5, 6)
    assert library.rows[-1] == pytest.approx(library.rows[:-1].mean(0))
    assert library.levels == pytest.approx(library.rows[:-1].mean(1) - library.rows[-1].mean())


def test_a_library_gains_models_and_keeps_its_own() -> None:
    library = fleet(2, 3)
    assert library.with_models([library.models[0]]) is library
    grown = library.with_models([ModelTraits("new"), ModelTraits("new")])
    assert (grown.column("new"), grown.rows.shape) == (3, (3, 4))
    assert np.isnan(grown.rows[:, 3]).all()


def test_the_most_similar_device_counts_most_whatever_its_speed() -> None:
    library = fleet(6, 30, noise=0)
    neighbours = neighbour_weights(library, np.arange(10), library.rows[2, :10] + np.log(3), np.zeros(7))
    assert np.argmax(neighbours.weights) == 2
    assert neighbours.offsets[2] == pytest.approx(np.log(3))


def test_a_device_that_shares_no_model_does_not_count() -> None:
    values = np.array([[1.0, 2.0, 3.0, np.nan], [np.nan, np.nan, np.nan, 1.0]])
    library = MeasurementLibrary.of(
        [DeviceTraits("a"), DeviceTraits("b")], [ModelTraits(name) for name in "wxyz"], values
    )
    neighbours = neighbour_weights(library, np.arange(3), np.array([2.0, 3.0, 4.0]), np.zeros(3))
    assert neighbours.weights[0] > 0
    assert neighbours.weights[1] == 0


def test_the_fit_finds_a_pattern_that_explains_the_residuals() -> None:
    pattern = np.outer([1, -1, 1, -1], [1, -1, 1, -1]) * 0.1
    fitted = fit_residuals(np.array([0.3, -0.3, 0.3, -0.3]), pattern, np.eye(4), np.zeros(4))
    assert pattern[0] @ fitted.pattern == pytest.approx(0.3, abs=0.05)
    assert fitted.level == pytest.approx(0, abs=0.05)
    assert np.abs(fitted.held_out).max() < 0.1


def test_without_observations_the_residual_fit_is_zero() -> None:
    empty = np.zeros((0, 0))
    assert fit_residuals(np.zeros(0), empty, empty, np.zeros(0)).level == 0


@pytest.mark.parametrize("size", [1, 2, 63, 64, 65, 100])
def test_any_number_of_residuals_can_be_fitted(size: int) -> None:
    errors = np.random.default_rng(size).normal(0.5, 0.1, size)
    fitted = fit_residuals(errors, np.eye(size), np.ones((size, size)), np.zeros(size))
    assert fitted.level == pytest.approx(0.5, abs=0.2)
    assert len(fitted.held_out) == size


def test_a_prior_follows_the_data_sheet() -> None:
    devices = [DeviceTraits(f"d{n}", (words(f"maker {n}"),), "gpu", 10.0**n) for n in range(8, 14)]
    values = np.array([[-0.7 * np.log(device.ops or 1)] for device in devices])
    library = MeasurementLibrary.of(devices, [ModelTraits("m")], values)
    affinity = np.zeros(7)
    quick = device_prior(DeviceTraits("new", (words("other"),), "gpu", 3e13), library, affinity)
    slow = device_prior(DeviceTraits("new", (words("other"),), "gpu", 3e7), library, affinity)
    assert quick.neighbours.offsets[0] < slow.neighbours.offsets[0] - 5


def test_a_prior_without_a_library_is_wide() -> None:
    assert device_prior(DeviceTraits("x"), fleet(0, 2), np.zeros(1)).spread == 1.0
