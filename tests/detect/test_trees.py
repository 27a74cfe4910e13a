"""Boards as their device trees describe them: the root entries alone must name the right family."""

from pathlib import Path

import pytest

from fairlead.catalog import Catalog, load
from fairlead.detect import detect
from fairlead.host import Host
from fairlead.inventory import Accelerator

GIB = 2**20  # /proc/meminfo counts KiB


@pytest.fixture(scope="module")
def known() -> Catalog:
    return load()


def look(root: Path, catalog: Catalog, compatible: str, files: dict[str, str]) -> list[Accelerator]:
    """Return the accelerators of a board with these root `compatible` entries, separated by blanks."""
    entries = [entry.replace("_", " ") for entry in compatible.split()]
    for path, text in {"proc/device-tree/compatible": "\0".join(entries) + "\0", **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return list(detect(Host(str(root)), catalog).accelerators)


def memory(gib: float) -> dict[str, str]:
    return {"proc/meminfo": f"MemTotal: {round(gib * GIB)} kB\n"}


def model(text: str) -> dict[str, str]:
    return {"proc/device-tree/model": f"{text}\0"}


def tree(name: str, text: str) -> dict[str, str]:
    return {f"proc/device-tree/{name}": text}


NAMED = [
    # A module id or a board name in the root entries decides.
    ("nvidia,p2371-2180 nvidia,tegra210", {}, "jetson-tx1"),
    ("nvidia,jetson-cv nvidia,tegra210", model("jetson_tx1"), "jetson-tx1"),
    ("nvidia,p3450-0000 nvidia,tegra210", {}, "jetson-nano"),
    ("nvidia,p3541-0000 nvidia,p3450-0000 nvidia,tegra210", {}, "jetson-nano"),
    ("nvidia,p3449-0000-b00+p3448-0002-b00 nvidia,jetson-nano nvidia,tegra210", {}, "jetson-nano"),
    ("nvidia,quill nvidia,p2597-0000+p3310-1000 nvidia,tegra186", model("quill"), "jetson-tx2"),
    ("nvidia,storm nvidia,p2597-0000+p3489-0000 nvidia,tegra186", model("storm"), "jetson-tx2"),
    ("nvidia,lightning nvidia,p2597-0000+p3489-0888 nvidia,tegra186", {}, "jetson-tx2"),
    ("nvidia,p3509-0000+p3636-0001 nvidia,tegra186", model("lanai-3636"), "jetson-tx2-nx"),
    ("nvidia,p3449-0000+p3668-0000 nvidia,p3509-0000+p3668-0001 nvidia,tegra194", {}, "jetson-xavier-nx"),
    ("nvidia,jetson-xavier nvidia,tegra194", model("Royal Oak DCM"), "jetson-agx-xavier"),
    ("nvidia,p2822-0000+p2888-0006 nvidia,p2972-0006 nvidia,tegra194", {}, "jetson-agx-xavier"),
    ("nvidia,p3768-0000+p3767-0003 nvidia,p3768-0000+p3767-0005 nvidia,tegra234", {}, "jetson-orin-nano"),
    ("nvidia,p3509-0000+p3767-0000 nvidia,tegra234 nvidia,tegra23x", {}, "jetson-orin-nx"),
    ("nvidia,p3768-0000+p3767-0000-px1 nvidia,p3767-0000 nvidia,tegra234", {}, "jetson-orin-nx"),
    ("nvidia,p3737-0000+p3701-0005 nvidia,p3701-0005 nvidia,tegra234", {}, "jetson-agx-orin"),
    ("nvidia,p3740-0002+p3701-0008 nvidia,p3701-0008 nvidia,tegra234", {}, "igx-orin"),
    ("nvidia,p4071-0000+p3834-0008 nvidia,p3834-0008 nvidia,tegra264", {}, "jetson-agx-thor"),
    # A module that emulates another keeps its own model.
    ("nvidia,p3668-0001 nvidia,p3668-emul nvidia,tegra194", {}, "jetson-agx-xavier"),
    ("nvidia,p3737-0000+p3701-0000-as-p3767-0004 nvidia,tegra234", {}, "jetson-agx-orin"),
    # A private carrier names its module elsewhere.
    ("acme,box nvidia,tegra234", tree("chosen/ids", "3767-0000-301 3768-0000-ES1"), "jetson-orin-nx"),
    ("acme,box nvidia,tegra194", tree("chosen/plugin-manager/ids/3668-0001-300", ""), "jetson-xavier-nx"),
    ("acme,box nvidia,tegra186", tree("nvidia,boardids", "3489:0000:A0"), "jetson-tx2"),
    ("acme,box nvidia,tegra210", tree("nvidia,boardids", "3448"), "jetson-nano"),
    (
        "acme,box nvidia,tegra194",
        tree("nvidia,dtsfilename", "tegra194-p3668-all-p3509.dts"),
        "jetson-xavier-nx",
    ),
    (
        "acme,box nvidia,tegra234",
        {"etc/nv_boot_control.conf": "TNSPEC 3767-301-0003-F.1-1-0-recomputer-orin-j401-\n"},
        "jetson-orin-nano",
    ),
    # Other SoCs, by the most specific entry that is known.
    ("radxa,rock-5b rockchip,rk3588", {}, "rk3588-npu"),
    ("khadas,edge2 rockchip,rk3588s", {}, "rk3588-npu"),
    ("radxa,zero3w rockchip,rk3566", {}, "rk3566-npu"),
    ("hardkernel,odroid-m1 rockchip,rk3568", {}, "rk3568-npu"),
    ("khadas,vim3 amlogic,a311d amlogic,g12b", {}, "a311d-npu"),
    ("google,imx8mq-phanbell fsl,imx8mq", {}, "coral-dev-board"),
    ("toradex,verdin-imx8mp fsl,imx8mp", {}, "imx8mp-npu"),
    ("fsl,imx93-11x11-evk fsl,imx93", {}, "imx93-npu"),
    ("ti,am62a7-sk ti,am62a7", {}, "am62a-npu"),
    ("beagle,j721e-beagleboneai64 ti,j721e", {}, "tda4vm-npu"),
    ("mediatek,mt8395-evk mediatek,mt8395 mediatek,mt8195", {}, "genio-1200-npu"),
    ("qcom,qcs6490-rb3gen2 qcom,qcm6490", {}, "qcs6490-npu"),
]


@pytest.mark.parametrize(("compatible", "files", "expected"), NAMED, ids=[row[0] for row in NAMED])
def test_the_model_of_a_board(
    tmp_path: Path, known: Catalog, compatible: str, files: dict[str, str], expected: str
) -> None:
    accelerators = look(tmp_path, known, compatible, files)
    assert [acc.model for acc in accelerators] == [expected]
    assert accelerators[0].candidates == (expected,)
    assert accelerators[0].reason


UNSURE = [
    ("acme,box nvidia,tegra194", {}, "tegra-xavier", {"jetson-agx-xavier", "jetson-xavier-nx"}),
    ("acme,box nvidia,tegra194", memory(30.8), "tegra-xavier", {"jetson-agx-xavier"}),
    (
        "acme,box nvidia,tegra234",
        model("Jetson Orin NX"),
        "tegra-orin",
        {"jetson-orin-nx", "jetson-agx-orin"},
    ),
    ("nvidia,darcy nvidia,tegra210", model("Shield TV"), "tegra-x1", {"jetson-tx1"}),
]


@pytest.mark.parametrize(("compatible", "files", "generic", "among"), UNSURE)
def test_undecided_candidates_have_a_low_confidence(
    tmp_path: Path, known: Catalog, compatible: str, files: dict[str, str], generic: str, among: set[str]
) -> None:
    accelerators = look(tmp_path, known, compatible, files)
    assert [acc.model for acc in accelerators] == [generic]
    assert among <= set(accelerators[0].candidates)
    assert accelerators[0].confidence < 0.8


BARE = [
    "raspberrypi,4-model-b brcm,bcm2711",
    "raspberrypi,5-model-b brcm,bcm2712",
    "hardkernel,odroid-n2 amlogic,s922x amlogic,g12b",
    "friendlyarm,nanopc-t4 rockchip,rk3399",
    "fsl,imx8mm-evk fsl,imx8mm",
    "fsl,imx8mq-evk fsl,imx8mq",
    "thundercomm,db845c qcom,sdm845",
    "ti,am625-sk ti,am625",
    "starfive,visionfive-2-v1.3b starfive,jh7110",
    "xunlong,orangepi-zero3 allwinner,sun50i-h618",
]


@pytest.mark.parametrize("compatible", BARE)
def test_boards_without_an_accelerator_have_none(tmp_path: Path, known: Catalog, compatible: str) -> None:
    assert look(tmp_path, known, compatible, model("Jetson Nano with Coral and Hailo-8")) == []


def test_a_wrong_model_text_is_overruled(tmp_path: Path, known: Catalog) -> None:
    lie = model("NVIDIA Jetson Orin NX Engineering Reference Developer Kit Super")
    accelerators = look(
        tmp_path, known, "nvidia,p3768-0000+p3767-0003-super nvidia,p3767-0003 nvidia,tegra234", lie
    )
    assert accelerators[0].model == "jetson-orin-nano"
    assert accelerators[0].confidence < 0.9
    assert any("disagree" in item.says for item in accelerators[0].evidence)


def test_soc_outranks_a_module_that_contradicts_it(tmp_path: Path, known: Catalog) -> None:
    accelerators = look(tmp_path, known, "nvidia,p3509-0000+p3668-0000 nvidia,tegra234", {})
    assert accelerators[0].model == "tegra-orin"
    assert "jetson-xavier-nx" not in accelerators[0].candidates
    assert any("disagree" in item.says for item in accelerators[0].evidence)


def test_a_masked_tree_is_replaced_by_the_chip(tmp_path: Path, known: Catalog) -> None:
    soc = {"family": "Tegra", "soc_id": "35", "machine": "NVIDIA Jetson AGX Orin Developer Kit"}
    files = {f"sys/devices/soc0/{name}": f"{text}\n" for name, text in soc.items()}
    for path, text in {**files, **memory(61.3)}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    accelerators = detect(Host(str(tmp_path)), known).accelerators
    assert [acc.model for acc in accelerators] == ["tegra-orin"]
    assert accelerators[0].candidates[0] == "jetson-agx-orin"
