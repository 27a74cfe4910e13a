"""Features: a profile, added up by the kinds of its operators."""

import pytest

from fairlead.calibration import OperatorWork, features
from fairlead.zoo import BUILDERS
from tests.estimate.networks import network


@pytest.mark.parametrize("name", BUILDERS)
def test_features_add_up_to_the_whole_profile(name: str) -> None:
    profile = network(name)
    model = features(profile)
    works = model.work.values()
    assert sum(work.operators for work in works) == len(profile.operators)
    assert sum(work.macs for work in works) == profile.macs
    assert sum(work.weight_bytes for work in works) == profile.weight_bytes
    assert sum(work.kernels for work in works) == profile.groups == model.groups
    assert all(work.moved_bytes >= 0 for work in works)
    assert (model.digest, model.batch, model.peak_bytes) == (profile.digest, 1, profile.peak_bytes)


def test_a_kernel_counts_for_its_main_kind() -> None:
    work = features(network("resnet18")).work
    assert work["conv"].kernels == work["conv"].operators == 20
    assert work["norm"].kernels == 0


def test_input_and_output_bytes_are_counted() -> None:
    model = features(network("resnet18"))
    assert (model.input_bytes, model.output_bytes) == (3 * 224 * 224 * 4, 1000 * 4)


def test_bytes_of_exponentials_are_counted() -> None:
    smooth = {
        name: sum(work.smooth_bytes for work in features(network(name)).work.values()) for name in BUILDERS
    }
    assert smooth["resnet50"] == 0
    assert smooth["efficientnet_b0"] > 10e6
    assert smooth["vit_tiny"] > 0


def test_moved_bytes_exclude_weights() -> None:
    assert OperatorWork(read_bytes=30, written_bytes=12, weight_bytes=20).moved_bytes == 22
