"""Steps of tables without graphs: what amounts tell, and what runs add."""

import numpy as np
import pytest

from fairlead.training.published import Steps, expected, layout_of, name_words, shifted

RESNET50 = {"macs": 4.11e9, "params": 25.56e6, "activations": 11.11e6}
RESNET18 = {"macs": 1.82e9, "params": 11.69e6, "activations": 2.48e6}
RTX = "NVIDIA RTX 3090 pytorch-nchw-eager amp train"


def steps(*amounts: dict[str, float], batch: float = 192.0) -> Steps:
    return Steps.of([(each, batch, "224") for each in amounts])


def test_a_step_of_a_known_device_is_expected_from_its_amounts() -> None:
    [slow, fast] = expected(steps(RESNET50, RESNET18), ["resnet50", "resnet18"], RTX, 142e12).logs
    assert 1e-3 < np.exp(slow) < 2e-3, "a ResNet-50 trains at 500 to 1,000 images a second there"
    assert 2 < np.exp(slow - fast) < 5


def test_a_faster_device_takes_less() -> None:
    here = expected(steps(RESNET50), ["resnet50"], RTX, 142e12)
    there = expected(steps(RESNET50), ["resnet50"], "NVIDIA H200 pytorch amp train", 989e12)
    assert 3 < np.exp(here.logs - there.logs)[0] < 7
    assert there.spread > here.spread


@pytest.mark.parametrize(("device", "least"), [("NVIDIA H200 amp train", 0.9), (RTX, 0.2)])
def test_runs_shift_the_level(device: str, least: float) -> None:
    before = expected(steps(*[RESNET50] * 12), ["resnet50"] * 12, device, None)
    runs = before.logs[:10] + np.log(2)
    logs, spread = shifted(before, range(10), runs)
    assert least * np.log(2) < (logs - before.logs)[11] <= np.log(2)
    assert (spread <= before.spread).all()


def test_without_runs_the_expectation_stands() -> None:
    before = expected(steps(RESNET50), ["resnet50"], RTX, None)
    logs, _ = shifted(before, [], np.array([]))
    assert logs == pytest.approx(before.logs)


def test_an_unknown_amount_is_no_number() -> None:
    logs = expected(steps({"macs": 1e9}), ["x"], RTX, None).logs
    assert np.isnan(logs).all()


def test_names_and_layouts() -> None:
    assert name_words("tf_efficientnet_b0.ns_jft_in1k") == {"tf", "efficientnet"}
    assert layout_of("pytorch-nhwc-eager") == layout_of("channels_last") == "nhwc"
    assert layout_of("pytorch") == "nchw"
