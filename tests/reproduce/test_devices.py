"""The order of small accelerators by network: predicted, and compared with the published one."""

from xml.etree import ElementTree

import pytest

from fairlead.reproduce.bars import Bar, BarGroup, bars
from fairlead.reproduce.devices.order import compare, order_devices
from fairlead.reproduce.devices.plot import svg
from fairlead.reproduce.devices.published import BOARDS, LATENCIES, NANO, TX2, USB2, USB3, PublishedOrder
from tests.catalogs import shipped

SVG = "{http://www.w3.org/2000/svg}"


def test_the_published_order_comes_out_but_for_one_statement() -> None:
    answer = order_devices(shipped(), ("mobilenet_v2", "inception_v3"))
    orders = {row["network"]: [each["device"] for each in row["devices"]] for row in answer["networks"]}
    assert orders == {"mobilenet_v2": [USB3, USB2, TX2, NANO], "inception_v3": [TX2, NANO, USB3, USB2]}
    otherwise = [each["statement"] for each in answer["statements"] if not each["agrees"]]
    assert otherwise == [f"inception_v3: {NANO} before {TX2}"]
    assert len(answer["statements"]) == 4  # of the two networks that were asked for
    texts = [each.text or "" for each in ElementTree.fromstring(svg(answer)).iter(f"{SVG}text")]
    assert {"mobilenet_v2", "inception_v3", *BOARDS} <= set(texts)


def test_published_latencies_are_within_a_factor() -> None:
    answer = order_devices(shipped())
    pairs = [
        (each["seconds"], each["published_seconds"])
        for row in answer["networks"]
        for each in row["devices"]
        if each["published_seconds"]
    ]
    assert len(pairs) == sum(map(len, LATENCIES.values())) == 8
    assert all(1 / 1.7 < ours / theirs < 1.7 for ours, theirs in pairs)


@pytest.mark.parametrize(("ours", "agrees"), [(("a", "b", "c"), True), (("b", "a", "c"), False)])
def test_a_statement_agrees_if_the_device_is_before_every_other(ours: tuple[str, ...], agrees: bool) -> None:
    [found] = compare([PublishedOrder("net", "a", ("b", "c"))], {"net": ours})
    assert found == {"statement": "net: a before b, c", "agrees": agrees}


def test_a_statement_about_a_device_that_is_missing_is_left_out() -> None:
    assert list(compare([PublishedOrder("net", "a", ("b",))], {"net": ("a", "c")})) == []


def test_bars_end_where_their_values_are_on_a_logarithmic_axis() -> None:
    group = BarGroup("net", (Bar("one", 1.0), Bar("ten", 10.0, 100.0), Bar("none", None)))
    drawn = ElementTree.fromstring(bars("a & b", [group], "ms"))
    wide = [float(each.get("width", 0)) for each in drawn.iter(f"{SVG}rect")][1:]
    assert wide[0] == 0
    assert wide[1] * 2 == pytest.approx(860 - 230 - 90)
    marks = [float(each.get("x1", 0)) for each in drawn.iter(f"{SVG}line") if each.get("stroke-width")]
    assert marks[-1] == pytest.approx(860 - 90)
