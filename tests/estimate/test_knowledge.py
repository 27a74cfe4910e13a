"""Which calibration matches a device, its share, link and power mode."""

from dataclasses import replace

import pytest

from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.target import target
from fairlead.units import Ops
from tests.catalogs import shipped
from tests.estimate.worlds import calibration, setup

T4 = calibration(setup("t4"))
XAVIER = calibration(setup("jetson-agx-xavier", power=15.0))
CPU = calibration(setup("cpu-x86-64-avx2", power=None))
CORAL = calibration(replace(setup("coral-usb", "int8", power=None), link_bits_per_second=480e6))


def own(text: str, precision: str = "fp32") -> str | None:
    known = Knowledge.of([T4, XAVIER, CPU, CORAL], shipped())
    fit_ = known.own_fit(target(text, shipped()), precision)
    return None if fit_ is None else fit_.setup.name


@pytest.mark.parametrize(
    ("text", "precision", "setup_name"),
    [
        ("t4", "fp32", "t4-onnxruntime-cuda-fp32-70w"),
        ("t4", "fp16", None),
        ("t4@1/2", "fp32", None),
        ("l4", "fp32", None),
        ("jetson-agx-xavier@15w", "fp32", "jetson-agx-xavier-onnxruntime-cuda-fp32-15w"),
        ("jetson-agx-xavier", "fp32", None),
        ("cpu-x86-64-avx2", "fp32", "cpu-x86-64-avx2-onnxruntime-cuda-fp32"),
        ("coral-usb@usb2", "int8", "coral-usb-onnxruntime-cuda-int8"),
        ("coral-usb", "int8", None),
    ],
)
def test_only_the_same_setup_is_the_calibration_of_a_device(
    text: str, precision: str, setup_name: str | None
) -> None:
    assert own(text, precision) == setup_name


def test_more_threads_are_preferred() -> None:
    wide = replace(CPU, setup=replace(CPU.setup, threads=8))
    fit_ = Knowledge.of([wide, CPU], shipped()).own_fit(target("cpu-x86-64-avx2", shipped()), "fp32")
    assert fit_ is not None
    assert fit_.setup.threads == 8


def test_rates_distinguish_processors_of_one_id() -> None:
    known = Knowledge.of([replace(CPU, setup=replace(CPU.setup, effective_ops=3e11))], shipped())
    bare = target("cpu-x86-64-avx2", shipped())
    same, wider = (replace(bare, rates={"fp32": Ops(rate)}) for rate in (3.1e11, 2e12))
    assert known.own_fit(bare, "fp32") is not None
    assert known.own_fit(same, "fp32") is not None
    assert known.own_fit(wider, "fp32") is None


def test_a_cpu_has_the_rates_of_its_calibration() -> None:
    known = Knowledge.of([replace(CPU, setup=replace(CPU.setup, effective_ops=3e11))], shipped())
    assert known.rates(target("cpu-x86-64-avx2", shipped())) == {"fp32": 3e11}
    assert known.rates(target("cpu-aarch64", shipped())) == {}
    assert known.rates(target("t4", shipped())) == target("t4", shipped()).rates


def test_an_unknown_device_is_skipped() -> None:
    assert Knowledge.of([calibration(setup("unknown-device"))], shipped()).fitted == ()
