"""Targets: devices with link, power mode and share."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.errors import CatalogError, FairleadError, SettingsError
from fairlead.estimate.target import target, target_of_accelerator, target_of_setup, targets
from fairlead.inventory import Accelerator, Link, MigPartition, State
from fairlead.units import BitsPerSecond, Bytes, Ops, Watts
from tests.catalogs import shipped
from tests.estimate.worlds import setup


def test_figures_come_from_the_catalog() -> None:
    tx2 = target("jetson-tx2", shipped())
    assert (tx2.device, tx2.kind, tx2.family, tx2.memory) == ("jetson-tx2", "gpu", "tegra-x2", 8 << 30)
    assert tx2.rates["fp16"] == 1.33e12
    assert (tx2.link, tx2.on_chip, tx2.share) == (None, None, 1.0)


def test_rates_for_pruned_models_are_left_out() -> None:
    assert not [name for name in target("a100", shipped()).rates if "sparse" in name]


def test_a_device_without_memory_of_its_own_keeps_weights_and_streams_the_rest() -> None:
    fast, slow = target("coral-usb", shipped()), target("coral-usb@usb2", shipped())
    assert (fast.on_chip, fast.memory, fast.link, slow.link) == (8 << 20, None, 5e9, 480e6)
    assert target("coral-usb@usb4", shipped()).link == 5e9  # no faster than the device itself


def test_a_power_mode_slows_the_clock_more_than_the_memory() -> None:
    best, capped = target("jetson-agx-xavier", shipped()), target("jetson-agx-xavier@15w", shipped())
    assert 0.4 < capped.rates["fp16"] / best.rates["fp16"] < 0.65
    assert best.bandwidth is not None
    assert capped.bandwidth is not None
    assert capped.rates["fp16"] / best.rates["fp16"] < capped.bandwidth / best.bandwidth < 1
    assert (capped.power, capped.capped, best.capped) == (15.0, True, False)


def test_more_watts_than_the_plain_board_select_its_super_mode() -> None:
    plain, best = target("jetson-orin-nano", shipped()), target("jetson-orin-nano@25w", shipped())
    assert (plain.rates["int8"], plain.bandwidth, plain.power) == (20e12, 68e9, 15.0)
    assert (best.rates["int8"], best.bandwidth, best.power, best.capped) == (33e12, 102e9, 25.0, False)
    assert best.memory == plain.memory == 8 << 30
    small = target("jetson-orin-nano@4GiB@25w", shipped())
    assert (small.rates["int8"], small.memory, small.power) == (17e12, 4 << 30, 25.0)
    between = target("jetson-orin-nano@20w", shipped())
    assert plain.rates["int8"] < between.rates["int8"] < best.rates["int8"]
    assert target("jetson-orin-nano@15w", shipped()).rates == plain.rates
    assert target("jetson-orin-nx@40w", shipped()).rates["int8"] == 38.5e12


def test_a_share_divides_rate_memory_and_power() -> None:
    whole, part = target("a100@80GiB", shipped()), target("a100@80GiB@1/4", shipped())
    assert whole.memory == 80 << 30
    assert part.memory == 20 << 30
    assert part.rates["fp16"] == whole.rates["fp16"] / 4
    assert (part.share, part.power) == (0.25, 100.0)


def test_where_skus_differ_the_least_memory_counts() -> None:
    assert target("a100", shipped()).memory == 40 << 30


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("corall-usb", "no device 'corall-usb'", "did you mean coral-usb"),
        ("", "no device ''", "fairlead catalog list"),
        ("coral-usb@pcie2", "coral-usb is not on pcie", "it is on usb"),
        ("a100@usb3", "has no link for a100", "leave the link out"),
        ("coral-usb@1/2", "coral-usb cannot be shared", "leave the share out"),
        ("jetson-agx-xavier@90w", "has no mode of 90 W", "it takes 10 to 30 W"),
        ("jetson-agx-xavier@1w", "has no mode of 1 W", "it takes 10 to 30 W"),
        ("jetson-orin-nano@30w", "has no mode of 30 W", "it takes 7 to 25 W"),
        ("t4@100w", "has no mode of 100 W", "it takes up to 70 W"),
        ("rk3588-npu@5w", "has no power for rk3588-npu", "leave it out"),
        ("a100@7GiB", "no a100 has 7.0 GiB", "it comes with 40GiB, 64GiB, 80GiB"),
        ("coral-usb@80GiB", "no coral-usb has 80 GiB", "it comes with 8.0MiB"),
        ("h200-mig-big", "'big' is not a MIG profile", "h200-mig-1g.18gb"),
        ("h200-mig-1g.18gb@1/7", "repeats a kind", "one of each kind"),
    ],
)
def test_an_impossible_device_is_refused_with_a_hint(text: str, message: str, hint: str) -> None:
    with pytest.raises(FairleadError, match=message) as caught:
        target(text, shipped())
    assert hint in caught.value.hint
    assert isinstance(caught.value, SettingsError | CatalogError)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("h200-mig-1g.18gb", 1 / 7),
        ("h200-mig-3g.71gb", 3 / 7),
        ("h200-mig-1c.3g.71gb", 1 / 7),
        ("a100-mig-1g.10gb.me", 1 / 7),
        ("a30-mig-1g.6gb", 1 / 4),
        ("h200-mig-7g.141gb", 1.0),
    ],
)
def test_a_mig_profile_is_a_share_of_its_gpu(text: str, share: float) -> None:
    part, whole = target(text, shipped()), target(text.partition("-mig-")[0], shipped())
    assert part.share == pytest.approx(share)
    assert part.rates["fp16"] == pytest.approx(whole.rates["fp16"] * share)
    assert part.device == whole.device


def test_devices_may_be_a_list_or_all() -> None:
    names = [each.name for each in targets(["t4, l4", "t4", "coral-usb@usb2"], shipped())]
    assert names == ["t4", "l4", "coral-usb@usb2"]
    every = targets(["all"], shipped())
    assert len(every) > 300
    assert not [each for each in every if shipped().devices[each.device].generic]
    with pytest.raises(SettingsError, match="no device is named"):
        targets([" , "], shipped())


def test_a_mig_instance_has_its_own_part_of_rates_bandwidth_and_power() -> None:
    whole = target("h200", shipped())
    assert whole.bandwidth is not None
    mig = MigPartition("1g.18gb", 9, 0, "gpu", "GPU-1", compute_share=16 / 132, memory_share=1 / 8)
    rates = {"fp16": Ops(whole.rates["fp16"] * 16 / 132)}
    instance = accelerator("h200", peak=rates, effective=rates, memory=Bytes(16 << 30), mig=mig)
    part = target_of_accelerator(instance, shipped())
    assert (part.rates, part.memory) == (rates, 16 << 30)
    assert part.bandwidth == pytest.approx(whole.bandwidth / 8)
    assert part.share == pytest.approx(16 / 132)  # calibrations of the whole GPU are not of the instance
    unknown = target_of_accelerator(replace(instance, mig=replace(mig, memory_share=None)), shipped())
    assert unknown.bandwidth is None


def accelerator(model: str = "jetson-tx2", state: State = State.HEALTHY, **fields: object) -> Accelerator:
    """Return an accelerator as detection would."""
    usual = {"peak": {"fp16": Ops(1e12)}, "effective": {"fp16": Ops(5e11)}, "memory": Bytes(4 << 30)}
    values: dict[str, Any] = {**usual, **fields}
    return Accelerator(
        id="gpu-0",
        model=model,
        name="a GPU",
        vendor="NVIDIA",
        kind="gpu",
        state=state,
        reason="no driver",
        confidence=1.0,
        candidates=(model,),
        bus="pci:0",
        **values,
    )


def test_a_detected_device_has_its_present_figures() -> None:
    here, sheet = (
        target_of_accelerator(accelerator(power=Watts(9.0)), shipped()),
        target("jetson-tx2", shipped()),
    )
    assert (here.name, here.device, here.memory, here.power) == ("gpu-0", "jetson-tx2", 4 << 30, 9.0)
    assert here.rates == {"fp16": 5e11}
    assert here.bandwidth is not None
    assert sheet.bandwidth is not None
    assert here.bandwidth < sheet.bandwidth


def test_a_detected_device_streams_over_its_own_link() -> None:
    link = Link(BitsPerSecond(480e6), BitsPerSecond(5e9))
    peak, now = {"int8": Ops(4e12)}, {"int8": Ops(4e11)}
    here = target_of_accelerator(accelerator("coral-usb", link=link, peak=peak, effective=now), shipped())
    assert (here.link, here.rates, here.memory, here.on_chip) == (480e6, {"int8": 4e12}, None, 8 << 20)


def test_a_detected_device_that_is_not_ready_has_a_reason() -> None:
    assert (
        target_of_accelerator(accelerator(state=State.PRESENT), shipped()).reason
        == "it is present only: no driver"
    )
    assert (
        target_of_accelerator(accelerator(state=State.PRESENT, peak={}, effective={}), shipped()).rates == {}
    )


def test_a_detected_device_outside_the_catalog_is_a_target() -> None:
    here = target_of_accelerator(accelerator("unknown-device"), shipped())
    assert (here.device, here.kind, here.rates) == ("unknown-device", "gpu", {"fp16": 5e11})


def test_a_calibrated_setup_is_a_target() -> None:
    here = target_of_setup(setup("t4"), shipped())
    assert here is not None
    assert (here.device, here.power) == ("t4", 70.0)
    assert target_of_setup(setup("unknown-device"), shipped()) is None


@pytest.mark.parametrize(
    ("name", "device", "memory"),
    [
        ("H100", "h100", 64),
        ("NVIDIA T4", "t4", 16),
        ("nvidia-a100-sxm4-80gb", "a100", 80),
        ("A100 PCIe 40GB", "a100", 40),
        ("Jetson_Nano", "jetson-nano", 4),
    ],
)
def test_a_product_name_in_any_case_names_a_device(name: str, device: str, memory: int) -> None:
    one = target(name, shipped())
    assert (one.name, one.device, one.memory) == (name, device, memory << 30)


def test_a_product_name_of_several_devices_is_refused_with_their_ids() -> None:
    with pytest.raises(CatalogError, match="is the name of 2 devices") as caught:
        target("GeForce GTX 1080", shipped())
    assert caught.value.hint == "name one: gtx-1080, gtx-1080-laptop"


PRODUCTS = [row for row in shipped().devices.values() if not row.generic]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jetson", [row.id for row in PRODUCTS if row.id.startswith("jetson-")]),
        ("tegra-orin", [row.id for row in PRODUCTS if row.family == "tegra-orin"]),
        ("Nvidia", [row.id for row in PRODUCTS if row.vendor == "NVIDIA"]),
        ("gpu", [row.id for row in PRODUCTS if row.kind == "gpu"]),
        ("Texas Instruments", [row.id for row in PRODUCTS if row.vendor == "Texas Instruments"]),
        ("all", [row.id for row in PRODUCTS]),
        ("cpu", [row.id for row in shipped().devices.values() if row.kind == "cpu"]),
        ("hailo-8", ["hailo-8"]),
    ],
)
def test_a_family_vendor_or_kind_is_all_of_its_products(name: str, expected: list[str]) -> None:
    assert [each.name for each in targets([name], shipped())] == expected
    assert expected


def test_terms_apply_to_every_device_of_a_group_or_give_a_reason() -> None:
    named = {each.device: each for each in targets(["jetson@15w,jetson-tx2@15w"], shipped())}
    assert named["jetson-agx-orin"].name == "jetson-agx-orin@15w"
    assert (named["jetson-agx-orin"].power, named["jetson-agx-orin"].reason) == (15.0, "")
    assert named["jetson-nano"].reason == "jetson-nano has no mode of 15 W"
    with pytest.raises(SettingsError, match=r"coral-[a-z-]+ has no mode of 900 W"):
        targets(["coral@900w"], shipped())


def test_an_unknown_group_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(CatalogError, match="no device 'nvidai'") as caught:
        targets(["nvidai"], shipped())
    assert "did you mean nvidia" in caught.value.hint
