"""The first use case of this project follows from the catalog's figures alone.

Published, in ms: MobileNetV1 and V2 on an Edge TPU behind USB 3 2.2 and 2.3, on a TX2 11 to 13; ResNet-50 on
the Edge TPU 49, on a TX2 12 to 16; Inception v4 on the Edge TPU 84, behind USB 2 1,055, on a TX2 38 to 52.
"""

import pytest

from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.predict import estimate
from fairlead.estimate.query import Query
from fairlead.estimate.target import target
from fairlead.prediction import Estimate, sort_key
from tests.catalogs import shipped
from tests.estimate.networks import network

USB3, USB2, TX2, NANO = "coral-usb@usb3", "coral-usb@usb2", "jetson-tx2", "jetson-nano"
BOARDS = (USB3, USB2, TX2, NANO)
JETSONS = (TX2, NANO)
SMALL = ("mobilenet_v1", "mobilenet_v2")
LARGE = ("resnet18", "resnet50", "inception_v3", "inception_v4")


def ranked(name: str, dtype: str = "fp32") -> list[Estimate]:
    """Return the estimates of a network on the boards, the quickest first."""
    devices = [target(board, shipped()) for board in BOARDS]
    return sorted(estimate(Query.of(network(name, dtype=dtype)), devices, Knowledge()), key=sort_key)


def milliseconds(name: str, device: str, dtype: str = "fp32") -> float:
    [result] = [each for each in ranked(name, dtype) if each.device == device]
    assert result.seconds is not None
    return result.seconds * 1e3


def test_inception_v4_is_as_published() -> None:
    profile = network("inception_v4")
    assert profile.macs == pytest.approx(12.28e9, rel=0.01)
    assert profile.params == pytest.approx(42.68e6, rel=0.01)


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("name", SMALL)
def test_small_networks_go_to_the_edge_tpu(name: str, dtype: str) -> None:
    best = ranked(name, dtype)[0]
    assert (best.device, best.precision, best.runtime) == (USB3, "int8", "edgetpu")
    assert "quantise it to int8" in best.needs


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("name", LARGE)
def test_large_networks_go_to_a_jetson(name: str, dtype: str) -> None:
    assert ranked(name, dtype)[0].device in JETSONS


@pytest.mark.parametrize("name", LARGE)
def test_nothing_large_goes_to_an_edge_tpu_behind_usb_2(name: str) -> None:
    assert network(name).weight_bytes / 4 > 8 << 20
    assert ranked(name)[-1].device == USB2


def test_no_device_is_best_for_all() -> None:
    assert len({ranked(name)[0].device for name in (*SMALL, *LARGE)}) > 1


@pytest.mark.parametrize(
    ("name", "device", "dtype", "published"),
    [
        ("mobilenet_v1", USB3, "fp32", 2.17),
        ("mobilenet_v2", USB3, "fp32", 2.29),
        ("mobilenet_v1", USB2, "fp32", 9.0),
        ("inception_v4", USB3, "fp32", 84.3),
        ("inception_v4", USB2, "fp32", 1055),
        ("mobilenet_v1", TX2, "fp16", 12.0),
        ("inception_v3", TX2, "fp16", 23.3),
        ("inception_v4", TX2, "fp16", 44.8),
        ("resnet50", TX2, "fp16", 14.0),
        ("resnet50", NANO, "fp16", 29.8),
    ],
)
def test_predictions_are_near_published_latencies(
    name: str, device: str, dtype: str, published: float
) -> None:
    assert published / 1.6 < milliseconds(name, device, dtype) < published * 1.6
