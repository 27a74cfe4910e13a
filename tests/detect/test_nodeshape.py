"""Unlisted device-tree nodes: an NPU by its name is reported, the parts around one are not."""

import pytest

from fairlead.catalog import Catalog
from fairlead.detect import detect
from tests.worlds import World, tree


@pytest.mark.parametrize(
    ("node", "compatible"),
    [
        ("npu@5f000000", "acme,wonder"),
        ("soc/wonder@5f000000", "acme,wonder-npu"),
        ("soc/tpu@5f000000", "acme,x"),
        ("soc/edgetpu@5f000000", "acme,x"),
        ("soc/bpu0@5f000000", "acme,x"),
        ("soc/engine@5f000000", "acme,nvdla-v2"),
        ("soc/nna@5f000000", "acme,x"),
        ("soc/x@5f000000", "acme,w4-cnn-host"),
    ],
)
def test_a_node_named_like_a_neural_engine_is_unknown(
    world: World, catalog: Catalog, node: str, compatible: str
) -> None:
    inventory = detect(world(tree("acme,board", "acme,soc", nodes={node: compatible})), catalog)
    assert inventory.accelerators == ()
    (unknown,) = inventory.unknown
    assert unknown.bus == f"platform:5f000000.{node.partition('@')[0].rpartition('/')[2]}"
    assert unknown.ids == compatible
    assert "named like a neural engine" in unknown.reason


@pytest.mark.parametrize(
    ("node", "compatible"),
    [
        ("npu@5f000000", "acme,npu disabled"),
        ("soc/pwm@e6e80000", "renesas,tpu-r8a7790 renesas,tpu"),
        ("soc/npu@1e900000", "airoha,en7581-npu"),
        ("npu@0", "ibm,power9-npu"),
        ("npu-opp-table", "operating-points-v2"),
        ("soc/syscon@fd5a2000", "rockchip,rk3599-npu-grf syscon"),
        ("soc/iommu@fdab9000", "acme,npu-iommu"),
        ("vdd-npu-s0", "regulator-fixed"),
        ("reserved-memory/npu@0", "shared-dma-pool"),
        ("gpio-keys", "gpio-input"),
        ("soc/antenna@1", "acme,antenna"),
        ("soc/output@1", "acme,input-output"),
    ],
)
def test_a_part_around_an_engine_is_not_unknown(
    world: World, catalog: Catalog, node: str, compatible: str
) -> None:
    inventory = detect(world(tree("acme,board", "acme,soc", nodes={node: compatible})), catalog)
    assert (inventory.accelerators, inventory.unknown) == ((), ())


def test_the_cores_of_one_engine_are_one_unknown(world: World, catalog: Catalog) -> None:
    nodes = {f"soc/npu@5f00{core}000": "acme,npu-core" for core in range(3)}
    (unknown,) = detect(world(tree("acme,soc", nodes=nodes)), catalog).unknown
    assert unknown.bus == "platform:5f000000.npu"


def test_an_engine_of_a_listed_device_is_not_unknown(world: World, catalog: Catalog) -> None:
    nodes = {
        "bus@0/gpu@17000000": "nvidia,ga10b",
        "bus@0/host1x@13e00000/nvdla0@15880000": "nvidia,tegra234-nvdla",
    }
    files = tree("nvidia,p3737-0000+p3701-0005", "nvidia,tegra234", nodes=nodes)
    inventory = detect(world(files), catalog)
    assert [acc.model for acc in inventory.accelerators] == ["jetson-agx-orin"]
    assert inventory.unknown == ()


def test_an_unlisted_node_of_a_soc_with_a_listed_engine_is_that_engine(
    world: World, catalog: Catalog
) -> None:
    files = tree("bitmain,sophon-edge", "bitmain,bm1880", nodes={"soc/tpu@54000000": "bitmain,tpu"})
    inventory = detect(world(files), catalog)
    assert [acc.model for acc in inventory.accelerators] == ["bm1880-tpu"]
    assert inventory.unknown == ()
