"""Seconds of each amount of work from the data sheet."""

import numpy as np
import pytest

from fairlead.calibration import features
from fairlead.estimate.amounts import NAMES, Array, WorkAmounts, amounts
from fairlead.estimate.roofline import coefficients, link_seconds
from fairlead.estimate.speeds import runtimes, speed
from fairlead.estimate.target import Target, target, targets
from fairlead.units import Ops
from tests.catalogs import shipped
from tests.estimate.networks import network


def work(name: str, width: float = 1.0) -> WorkAmounts:
    return amounts(features(network(name))).scaled(1, width)


def row(device: Target, precision: str) -> Array:
    return np.asarray(coefficients([device], [device.rates[precision]])[0])


def test_every_device_of_the_catalog_has_speeds_and_a_runtime() -> None:
    known = runtimes()
    for device in shipped().devices.values():
        device_speed = speed(device.kind, device.vendor, device.family)
        assert device_speed.runtimes
        assert set(device_speed.runtimes) <= set(known)
        assert 0 < device_speed.conv <= 1
        assert 0 < device_speed.product <= 1
        assert (
            min(
                device_speed.bytes,
                device_speed.depthwise,
                device_speed.light,
                device_speed.smooth,
                device_speed.weights,
                device_speed.link,
            )
            > 0
        )


def test_no_device_is_faster_than_its_peak() -> None:
    devices = [each for each in targets(["all"], shipped()) if each.rates]
    rates = [max(each.rates.values()) for each in devices]
    seconds = coefficients(devices, rates)
    assert np.isfinite(seconds).all()
    assert (seconds > 0).all()
    for name in ("macs.conv", "macs.product"):
        assert (seconds[:, NAMES.index(name)] >= 2 / np.array(rates)).all()


def test_coefficients_of_many_devices_equal_those_of_each_alone() -> None:
    devices = targets(["t4,coral-usb,jetson-nano,hailo-8"], shipped())
    rates = [Ops(1e12)] * 4
    together = coefficients(devices, rates)
    for index, device in enumerate(devices):
        assert coefficients([device], [rates[index]])[0].tolist() == together[index].tolist()


def test_a_seventh_of_a_gpu_is_not_seven_times_slower() -> None:
    whole, part = target("a100", shipped()), target("a100@1/7", shipped())
    ratio = (
        work("resnet50", 0.25).time @ row(part, "int8") / (work("resnet50", 0.25).time @ row(whole, "int8"))
    )
    assert 1.2 < ratio < 2.5  # MLPerf: 1.5 to 1.7


@pytest.mark.parametrize(
    ("device", "published"),
    [
        ("rtx-4090", 0.22),
        ("l4", 0.36),
        ("a100", 0.45),
        ("a100@1/7", 0.70),
        ("t4", 0.84),
        ("a2", 0.71),
        ("jetson-agx-orin", 0.69),
        ("jetson-orin-nx", 1.09),
        ("jetson-agx-xavier", 2.06),
        ("jetson-xavier-nx", 2.65),
    ],
)
def test_resnet_50_in_int8_takes_about_what_mlperf_shows(device: str, published: float) -> None:
    seconds = work("resnet50", 0.25).time @ row(target(device, shipped()), "int8")
    assert published / 2 < seconds * 1e3 < published * 2


def test_weights_that_stay_on_the_chip_do_not_pass_the_link() -> None:
    coral = target("coral-usb", shipped())
    small, large = work("mobilenet_v2", 0.25), work("resnet50", 0.25)
    assert small.weights < 7 << 20 < large.weights
    assert link_seconds(coral, small) == pytest.approx(8 * small.carried / (5e9 * 0.57))
    beyond = large.weights - 0.85 * (8 << 20)
    assert link_seconds(coral, large) == pytest.approx(8 * (large.carried + beyond) / (5e9 * 0.57))
    slower = link_seconds(target("coral-usb@usb2", shipped()), large)
    assert slower / link_seconds(coral, large) == pytest.approx(5e9 / 480e6)


def test_a_device_with_memory_of_its_own_has_no_link_to_wait_for() -> None:
    assert link_seconds(target("t4", shipped()), work("resnet50")) == 0


def test_weights_stay_on_a_device_of_unknown_on_chip_memory() -> None:
    hailo = target("hailo-8", shipped())
    assert hailo.on_chip is None
    carried = work("resnet50").carried
    assert link_seconds(hailo, work("resnet50")) == pytest.approx(8 * carried / (32e9 * 0.57))
