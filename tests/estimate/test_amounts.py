"""Amounts of work."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.calibration import Features, features
from fairlead.estimate.amounts import MEMORY, NAMES, amounts
from fairlead.units import Bytes
from fairlead.zoo import KNOWN
from tests.estimate.networks import network


def of(name: str, batch: int = 1, dtype: str = "fp32") -> dict[str, float]:
    return dict(zip(NAMES, amounts(features(network(name, batch, dtype))).time.tolist(), strict=True))


@pytest.mark.parametrize("name", KNOWN)
def test_amounts_add_up_to_the_model(name: str) -> None:
    profile, by_name = network(name), of(name)
    depthwise = sum(operator.macs for operator in profile.operators if operator.kind == "depthwise")
    assert by_name["call"] == 1
    assert by_name["macs.conv"] + by_name["macs.product"] + depthwise == profile.macs
    assert by_name["kernels.conv"] + by_name["kernels.other"] == profile.groups
    work = amounts(features(profile))
    assert work.weights == profile.weight_bytes
    assert work.memory[1] + work.memory[3] == pytest.approx(profile.weight_bytes)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v1", "vit_tiny"])
@pytest.mark.parametrize(("batch", "dtype"), [(4, "fp32"), (1, "fp16"), (4, "fp16")])
def test_scaled_amounts_equal_those_of_another_file(name: str, batch: int, dtype: str) -> None:
    scaled = amounts(features(network(name))).scaled(batch, 0.5 if dtype == "fp16" else 1.0)
    real = amounts(features(network(name, batch, dtype)))
    assert scaled.time == pytest.approx(real.time, rel=0.02)
    assert scaled.memory == pytest.approx(real.memory, rel=0.02)
    assert scaled.carried == pytest.approx(real.carried)


@given(st.floats(0.1, 64), st.floats(0.125, 4))
def test_weights_are_read_once_for_a_batch(batch: float, width: float) -> None:
    one = amounts(features(network("resnet18")))
    many = one.scaled(batch, width)
    for name, before, after in zip(NAMES, one.time, many.time, strict=True):
        factor = (batch if name.startswith(("macs", "bytes")) else 1) * (
            width if name.startswith(("bytes", "weights")) else 1
        )
        assert after == pytest.approx(before * factor)
    assert many.weights == pytest.approx(one.weights * width)


def test_an_empty_model_has_no_amounts() -> None:
    nothing = amounts(Features("", 1, 0, Bytes(0)))
    assert nothing.time.tolist() == [1.0, *[0.0] * (len(NAMES) - 1)]
    assert nothing.memory.tolist() == [1.0, *[0.0] * (len(MEMORY) - 1)]
    assert np.isfinite(nothing.scaled(2, 2).time).all()
