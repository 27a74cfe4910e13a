"""The device tree: board, module, SoC and nodes as evidence, alone and in contradiction."""

import pytest

from fairlead.catalog import Catalog
from fairlead.detect import detect
from tests.worlds import TREE, Entry, Files, World, memory, tree

NODE = {"gpu@17": "acme,igpu"}


@pytest.mark.parametrize(
    ("files", "model", "candidates", "confidence"),
    [
        (tree("acme,small", "acme,soc", nodes=NODE), "board-small", ["board-small"], 0.97),
        (tree("x,carrier+p1111-0001", "acme,soc"), "board-small", ["board-small"], 0.97),
        (tree("x,CARRIER+P1111-0001", "acme,soc"), "board-small", ["board-small"], 0.97),
        # Only the SoC is known: both of its boards are candidates, unless the memory decides.
        (tree("x,carrier", "acme,soc", nodes=NODE), None, ["board-small", "board-big"], 0.7),
        (tree("x,carrier", "acme,soc", nodes=NODE) | memory(3.9), "board-small", ["board-small"], 0.9),
        (tree("x,carrier", "acme,soc", nodes=NODE) | memory(31), "board-big", ["board-big"], 0.9),
        (tree("x,carrier", "acme,soc", nodes=NODE) | memory(200), None, ["board-small", "board-big"], 0.7),
        # The root names two boards.
        (tree("acme,small", "acme,big", "acme,soc"), None, ["board-small", "board-big"], 0.6),
        # Weaker witnesses, outside the root `compatible`.
        (
            tree("acme,soc") | {f"{TREE}/nvidia,dtsfilename": "/src/soc-p2222-0001-x.dts\0"},
            "board-big",
            ["board-big"],
            0.85,
        ),
        (
            tree("acme,soc") | {f"{TREE}/chosen/ids": "2222-0001-300 9999-0000\0"},
            "board-big",
            ["board-big"],
            0.85,
        ),
        (
            tree("acme,soc") | {f"{TREE}/chosen/plugin-manager/ids/1111-0001-400": ""},
            "board-small",
            ["board-small"],
            0.85,
        ),
        (tree("acme,soc") | {f"{TREE}/nvidia,proc-boardid": "2222:0001\0"}, "board-big", ["board-big"], 0.85),
        (
            tree("acme,soc") | {"/etc/nv_boot_control.conf": "TNSPEC 1111-300-0001-G.0-1-0-kit-\n"},
            "board-small",
            ["board-small"],
            0.85,
        ),
        # Weaker witnesses that contradict one another decide nothing.
        (
            tree("acme,soc") | {f"{TREE}/chosen/ids": "2222-0001 1111-0001\0"},
            None,
            ["board-small", "board-big"],
            0.7,
        ),
        # A SoC whose every chip has the engine, one where only some do, one that must be named by a node.
        (tree("acme,npu-soc"), "soc-npu", ["soc-npu"], 0.9),
        (tree("acme,npu-soc", nodes={"npu@f0": "acme,npu"}), "soc-npu", ["soc-npu"], 0.95),
        (tree("acme,npu-soc", nodes={"bus@0/soc/npu@f0": "acme,npu"}), "soc-npu", ["soc-npu"], 0.95),
        (tree("acme,npu-soc", nodes={"npu@f0": "common,gc"}), "soc-npu", ["soc-npu"], 0.95),
        (tree("acme,maybe-soc"), "maybe-npu", ["maybe-npu"], 0.6),
        (tree("acme,needy-soc", nodes={"x@1": "acme,needy"}), "needy-npu", ["needy-npu"], 0.95),
        # A node of a `compatible` that only one device has, on a SoC that is not known.
        (tree("x,soc", nodes={"npu@f0": "acme,npu"}), "soc-npu", ["soc-npu"], 0.85),
        # A board that is no SoC's.
        (tree("acme,kit", "x,soc"), "kit", ["kit"], 0.97),
    ],
)
def test_the_devices_of_a_tree(
    world: World,
    small: Catalog,
    files: Files,
    model: str | None,
    candidates: list[str],
    confidence: float,
) -> None:
    (acc,) = detect(world(files), small).accelerators
    assert acc.model == model
    assert sorted(acc.candidates) == sorted(candidates)
    assert acc.confidence == pytest.approx(confidence)
    assert acc.evidence[0].source == "dt"


@pytest.mark.parametrize(
    "files",
    [
        tree("acme,needy-soc"),
        tree("acme,needy-soc", nodes={"x@1": "acme,needy disabled"}),
        tree("x,soc", nodes={"npu@f0": "acme,npu disabled"}),
        tree("x,soc", nodes={"memory/deeper/npu@f0": "acme,npu"}),  # not below a bus
        tree("raspberrypi,5-model-b", "brcm,bcm2712", model="Raspberry Pi 5"),
        {f"{TREE}/model": "a name alone\0"},
        {f"{TREE}/compatible": b"\xff\xfe\0\0\x80"},
        {},
    ],
)
def test_a_board_without_an_accelerator_has_none(
    world: World, small: Catalog, files: dict[str, Entry]
) -> None:
    inventory = detect(world(files), small)
    assert inventory.accelerators == ()
    assert inventory.unknown == ()


CDSP = {"soc@0/remoteproc@a300000": "qcom,sc7280-cdsp-pas"}


@pytest.mark.parametrize(
    ("compatible", "nodes", "model", "candidates", "confidence"),
    [
        # The entry before the fallback names a chip that the catalog knows, or one that it does not.
        (("qcom,qcm6490-addons-idp", "qcom,sc7280"), CDSP, "qcs6490-npu", ["qcs6490-npu"], 0.85),
        (("qcom,qcm6490-addons-idp", "qcom,sc7280"), {}, "qcs6490-npu", ["qcs6490-npu"], 0.85),
        (("qcom,qcx9999-idp", "qcom,sc7280"), CDSP, "hexagon-npu", ["hexagon-npu", "sc7280-npu"], 0.6),
        (("rockchip,rk3599-evb", "rockchip,rk3588"), {}, "rk3588-npu", ["rk3588-npu"], 0.6),
        # The same chip under its own name, another of its names, or beside a board's name or number.
        (("qcom,sc7280-idp", "qcom,sc7280"), CDSP, "sc7280-npu", ["sc7280-npu"], 0.95),
        (("google,villager", "qcom,sc7280"), {}, "sc7280-npu", ["sc7280-npu"], 0.9),
        (("qcom,qrb5165-rb5", "qcom,sm8250"), {}, "sm8250-npu", ["sm8250-npu"], 0.9),
        (("qcom,x1e78100", "qcom,x1e80100"), {}, "x1e80100-npu", ["x1e80100-npu"], 0.9),
        (("qcom,sa8295p-adp", "qcom,sa8540p"), {}, "sa8540p-npu", ["sa8540p-npu"], 0.9),
        (("rockchip,rk3582", "rockchip,rk3588s"), {}, "rk3588-npu", ["rk3588-npu"], 0.97),
        (
            ("renesas,rzv2h-evk", "renesas,r9a09g057h44", "renesas,r9a09g057"),
            {},
            "rzv2h-npu",
            ["rzv2h-npu"],
            0.9,
        ),
        (("apple,j313", "apple,t8103"), {}, "apple-m1-ane", ["apple-m1-ane"], 0.9),
        (("st,stm32mp257f-dk", "st,stm32mp257"), {}, "stm32mp25-npu", ["stm32mp25-npu"], 0.9),
    ],
)
def test_a_more_precise_entry_overrides_a_fallback(
    world: World,
    catalog: Catalog,
    compatible: tuple[str, ...],
    nodes: dict[str, str],
    model: str,
    candidates: list[str],
    confidence: float,
) -> None:
    (acc,) = detect(world(tree(*compatible, nodes=nodes)), catalog).accelerators
    assert (acc.model, sorted(acc.candidates)) == (model, candidates)
    assert acc.confidence == pytest.approx(confidence)


def test_a_qcm6490_uses_its_own_row(world: World, catalog: Catalog) -> None:
    host = world(tree("qcom,qcm6490-addons-idp", "qcom,sc7280", nodes=CDSP))
    (acc,) = detect(host, catalog).accelerators
    assert acc.peak["int8"] == 12e12
    assert any("qcom,qcm6490-addons-idp comes first" in item.says for item in acc.evidence)


A527 = {"soc/npu@7122000": "vivante,gc"}


@pytest.mark.parametrize(
    ("files", "model", "candidates"),
    [
        (tree("radxa,cubie-a5e", "allwinner,sun55i-a527", nodes=A527), "a527-npu", ["a527-npu"]),
        (tree("acme,t527-board", "allwinner,sun55i-t527", nodes=A527), "t527-npu", ["t527-npu"]),
        (
            tree("x,y", "arm,sun55iw3p1", nodes={"npu@7122000": "allwinner,npu"}),
            None,
            ["a527-npu", "t527-npu"],
        ),
    ],
)
def test_an_a527_is_not_identified_as_t527(
    world: World, catalog: Catalog, files: Files, model: str | None, candidates: list[str]
) -> None:
    (acc,) = detect(world(files), catalog).accelerators
    assert (acc.model, sorted(acc.candidates)) == (model, candidates)
    assert "A527" in acc.name or "a527-npu" not in acc.candidates


def test_alternatives_that_a_boot_loader_disabled_are_left_out(world: World, catalog: Catalog) -> None:
    host = world(tree("x,y", "arm,sun55iw3p1", nodes={"npu@7122000": "allwinner,npu disabled"}))
    assert detect(host, catalog).accelerators == ()


@pytest.mark.parametrize(
    ("files", "model", "rates"),
    [
        (tree("acme,board", "eswin,eic7700"), "eic7700-npu", {"int8": 13.3e12}),
        (
            tree("sifive,hifive-premier-p550", "eswin,eic7700", nodes={"soc/npu@51c00000": "eswin,npu0"}),
            "eic7700-npu",
            {"int8": 19.95e12, "fp16": 9.975e12},
        ),
        (tree("hobot,x3", nodes={"soc/cnn@a3000000": "hobot,x2-cnn-host"}), "horizon-bpu", {}),
        (tree("st,stm32mp235f-dk", "st,stm32mp235"), "stm32mp23-npu", {"int8": 0.6e12}),
        (tree("hisilicon,hi3670-hikey970", "hisilicon,hi3670"), "kirin-970-npu", {"fp16": 1.92e12}),
        (tree("renesas,white-hawk-cpu", "renesas,r8a779g0"), "rcar-v4h-npu", {}),
        (tree("google,spherion", "mediatek,mt8192"), "mt8192-npu", {"int8": 2.4e12}),
        (tree("bitmain,sophon-edge", "bitmain,bm1880"), "bm1880-tpu", {"int8": 1e12}),
    ],
)
def test_engines_of_boards_that_were_once_missing(
    world: World, catalog: Catalog, files: Files, model: str, rates: dict[str, float]
) -> None:
    inventory = detect(world(files), catalog)
    assert [(acc.model, acc.peak) for acc in inventory.accelerators] == [(model, rates)]
    assert inventory.unknown == ()


def test_a_common_node_on_an_unknown_soc_is_reported_as_unknown(world: World, small: Catalog) -> None:
    inventory = detect(world(tree("x,soc", nodes={"npu@f0": "common,gc", "gpu@f1": "common,gc"})), small)
    assert inventory.accelerators == ()
    (unknown,) = inventory.unknown
    assert (unknown.bus, unknown.ids) == ("platform:f0.npu", "common,gc")
    assert "looks like SoC NPU" in unknown.reason


def test_three_nodes_of_one_engine_are_one_accelerator(world: World, small: Catalog) -> None:
    nodes = {f"npu@f{n}": "acme,npu" for n in range(3)}
    (acc,) = detect(world(tree("acme,npu-soc", nodes=nodes)), small).accelerators
    assert acc.bus == "platform:f0.npu"


def test_a_disabled_node_does_not_disable_the_others(world: World, small: Catalog) -> None:
    nodes = {"npu@f0": "acme,npu disabled", "npu@f1": "acme,npu"}
    (acc,) = detect(world(tree("acme,npu-soc", nodes=nodes)), small).accelerators
    assert (acc.bus, "disabled" in acc.reason) == ("platform:f1.npu", False)


def test_a_product_of_another_soc_lowers_the_confidence_and_is_listed(world: World, small: Catalog) -> None:
    (acc,) = detect(world(tree("acme,small", "acme,npu-soc")), small).accelerators
    assert acc.model == "soc-npu"
    assert any(item.says.endswith("but the SoC is acme,npu-soc: they disagree") for item in acc.evidence)


@pytest.mark.parametrize(
    ("board", "candidates", "confidence", "says"),
    [
        ("Board Big Developer Kit", ("board-big", "board-small"), 0.7, "the board calls itself"),
        ("Quantum Nine", ("board-small", "board-big"), 0.7, None),
        ("", ("board-small", "board-big"), 0.7, None),
    ],
)
def test_the_board_s_own_name_orders_candidates_but_never_decides(
    world: World, small: Catalog, board: str, candidates: tuple[str, ...], confidence: float, says: str | None
) -> None:
    (acc,) = detect(world(tree("x,carrier", "acme,soc", model=board)), small).accelerators
    assert (acc.model, acc.candidates) == (None, candidates)
    assert acc.confidence == pytest.approx(confidence)
    assert any(item.says.startswith(says or "SoC") for item in acc.evidence)


def test_a_name_that_contradicts_the_module_lowers_the_confidence(world: World, small: Catalog) -> None:
    host = world(tree("x+p1111-0001", "acme,soc", model="NVIDIA Board Big Developer Kit"))
    (acc,) = detect(host, small).accelerators
    assert acc.model == "board-small"
    assert acc.confidence == pytest.approx(0.97 - 0.15)
    assert any("which would be Board Big: they disagree" in item.says for item in acc.evidence)


def test_the_tree_below_sysfs_is_used_if_proc_has_none(world: World, small: Catalog) -> None:
    files = tree("acme,npu-soc")
    del files["/proc/device-tree"]
    (acc,) = detect(world(files), small).accelerators
    assert acc.evidence[0].path == f"{TREE}/compatible"


@pytest.mark.parametrize(
    ("files", "candidate"),
    [
        ({"/sys/devices/soc0/family": "Tegra\n", "/sys/devices/soc0/soc_id": "33\n"}, "jetson-nano"),
        ({"/sys/devices/soc0/family": "Tegra\n", "/sys/devices/soc0/soc_id": "35\n"}, "jetson-agx-orin"),
        ({"/sys/devices/soc0/family": "Tegra\n", "/sys/devices/soc0/soc_id": "99\n"}, None),
        ({"/sys/devices/soc0/family": "i.MX\n", "/sys/devices/soc0/soc_id": "33\n"}, None),
        ({"/sys/devices/soc0/soc_id": "33\n"}, None),
    ],
)
def test_a_masked_tree_is_replaced_by_the_chip_number(
    world: World, catalog: Catalog, files: Files, candidate: str | None
) -> None:
    inventory = detect(world(files), catalog)
    assert [candidate in acc.candidates for acc in inventory.accelerators] == [True] * (candidate is not None)
    assert all(acc.confidence < 0.9 for acc in inventory.accelerators)
