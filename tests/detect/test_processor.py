"""Ids that the devices of several processors share: /proc/cpuinfo decides between them if it can."""

import pytest

from fairlead.catalog import Catalog
from fairlead.detect import detect
from fairlead.detect.cpu import CPUINFO
from tests.worlds import World, pci

ADDRESS = "0000:c5:00.1"
XDNA, INTEL = "1022:1502", "8086:7d1d"
PHOENIX, HAWK_POINT = "xdna-phoenix", "xdna-hawk-point"
METEOR_LAKE, ARROW_LAKE = "intel-npu-meteor-lake", "intel-npu-arrow-lake"


def cpuinfo(name: str, vendor: str = "GenuineIntel", family: int = 0, model: int = 0) -> dict[str, str]:
    """Return /proc/cpuinfo of a processor of one core; a family of 0 is not printed."""
    numbers = f"cpu family\t: {family}\nmodel\t\t: {model}\n" if family else ""
    head = f"processor\t: 0\nvendor_id\t: {vendor}\n{numbers}"
    return {CPUINFO: f"{head}model name\t: {name}\nflags\t\t: fpu lm\n\n"}


@pytest.mark.parametrize(
    ("ids", "processor", "model"),
    [
        (XDNA, cpuinfo("AMD Ryzen 7 7840U w/ Radeon 780M Graphics"), PHOENIX),
        (XDNA, cpuinfo("AMD Ryzen 7 PRO 7840HS w/ Radeon 780M Graphics"), PHOENIX),
        (XDNA, cpuinfo("AMD Ryzen 9 8945HS w/ Radeon 780M Graphics"), HAWK_POINT),
        (XDNA, cpuinfo("AMD Ryzen 5 PRO 8540U w/ Radeon 740M Graphics"), HAWK_POINT),
        (XDNA, cpuinfo("AMD Ryzen 7 8700G w/ Radeon 780M Graphics"), HAWK_POINT),
        (XDNA, cpuinfo("AMD Ryzen 7 250 w/ Radeon 780M Graphics"), HAWK_POINT),
        (XDNA, cpuinfo("AMD Eng Sample: 100", "AuthenticAMD", 25, 116), PHOENIX),
        (XDNA, cpuinfo("AMD Eng Sample: 100", "AuthenticAMD", 25, 117), HAWK_POINT),
        (INTEL, cpuinfo("Intel(R) Core(TM) Ultra 7 155H"), METEOR_LAKE),
        (INTEL, cpuinfo("Intel(R) Core(TM) Ultra 5 134U"), METEOR_LAKE),
        (INTEL, cpuinfo("Intel(R) Core(TM) Ultra 9 285H"), ARROW_LAKE),
        (INTEL, cpuinfo("Intel(R) Core(TM) Ultra 5 225U"), ARROW_LAKE),
        (INTEL, cpuinfo("Genuine Intel(R) 0000", "GenuineIntel", 6, 170), METEOR_LAKE),
        (INTEL, cpuinfo("Genuine Intel(R) 0000", "GenuineIntel", 6, 197), ARROW_LAKE),
    ],
)
def test_the_processor_decides_a_shared_id(
    world: World, catalog: Catalog, ids: str, processor: dict[str, str], model: str
) -> None:
    inventory = detect(world(pci(ADDRESS, ids, kind="0x118000") | processor), catalog)
    (acc,) = [acc for acc in inventory.accelerators if acc.kind == "npu"]
    assert (acc.model, acc.candidates) == (model, (model,))
    assert acc.confidence == pytest.approx(0.95)
    assert any(item.path == CPUINFO and "contains" in item.says for item in acc.evidence)


@pytest.mark.parametrize(
    "processor",
    [
        {},
        cpuinfo("QEMU Virtual CPU version 2.5+", "GenuineIntel", 15, 107),
        cpuinfo("AMD Ryzen 9 7950X 16-Core Processor", "AuthenticAMD", 25, 97),
        cpuinfo(
            "AMD Ryzen 7 7840U w/ Radeon 780M Graphics", "AuthenticAMD", 25, 117
        ),  # it contradicts itself
    ],
)
def test_an_unknown_processor_keeps_the_candidates(
    world: World, catalog: Catalog, processor: dict[str, str]
) -> None:
    inventory = detect(world(pci(ADDRESS, XDNA, kind="0x118000") | processor), catalog)
    (acc,) = [acc for acc in inventory.accelerators if acc.kind == "npu"]
    assert (acc.model, acc.candidates) == (None, (PHOENIX, HAWK_POINT))
    assert acc.confidence <= 0.5
