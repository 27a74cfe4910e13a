"""The figures of a device: its SKU, and its effective peak under clock cap, power mode and link."""

import pytest

from fairlead.catalog import Catalog
from fairlead.detect import detect
from fairlead.detect.capabilities import could_have, fits_memory
from fairlead.inventory import Accelerator
from fairlead.units import Bytes
from tests.worlds import Files, World, memory, pci, platform, tree, usb

GIB = 2**30
IGPU = platform("17.gpu", driver="igpu")
NODE = {"gpu@17": "acme,igpu"}


def only(accelerators: tuple[Accelerator, ...]) -> Accelerator:
    """Return the one accelerator of a machine."""
    (acc,) = accelerators
    return acc


def capped(**devfreq: str) -> Files:
    """Return the platform GPU with a devfreq folder."""
    files = {f"devfreq__17.gpu__{name}": f"{value}\n" for name, value in devfreq.items()}
    return platform("17.gpu", driver="igpu", **files)


@pytest.mark.parametrize(
    ("nominal", "total", "fits"),
    [(4, 3.9, True), (4, 3.4, True), (4, 4.0, True), (4, 3.0, False), (4, 4.1, False), (8, 3.9, False)],
)
def test_a_kernel_reports_less_than_the_nominal_memory(nominal: float, total: float, fits: bool) -> None:
    assert fits_memory(Bytes(round(nominal * GIB)), Bytes(round(total * GIB))) is fits


def test_a_device_of_unknown_memory_matches_any_amount(small: Catalog) -> None:
    assert could_have(small.devices["soc-npu"], Bytes(GIB))
    assert could_have(small.devices["board-big"], Bytes(31 * GIB))
    assert not could_have(small.devices["board-big"], Bytes(4 * GIB))


@pytest.mark.parametrize(
    ("compatible", "gib", "figures"),
    [
        ("acme,p1111-0001", 3.9, ("Board Small", 1, 10, 2)),
        ("acme,p2222-0001", 15.5, ("Board Big 16GB", 4, 40, 2)),
        ("acme,p2222-0002", 30.5, ("Board Big 32GB", 5, 50, 1)),
        ("acme,p2222-0002", None, ("Board Big 32GB", 5, 50, 1)),  # the module alone names the SKU
        ("acme,big", 30.5, ("Board Big 32GB", 5, 50, 1)),  # memory distinguishes SKUs of one board
        ("acme,big", 15.5, ("Board Big 16GB", 4, 40, 2)),
        ("acme,big", 23.0, ("Board Big", 4, 40, 2)),  # no SKU has that much: none is claimed
        ("acme,big", None, ("Board Big", 4, 40, 2)),
    ],
)
def test_the_sku_by_module_or_by_memory(
    world: World,
    small: Catalog,
    compatible: str,
    gib: float | None,
    figures: tuple[str, float, float, int],
) -> None:
    host = world(tree(compatible, "acme,soc", nodes=NODE) | (memory(gib) if gib else {}))
    acc = only(detect(host, small).accelerators)
    assert (acc.name, acc.peak["fp16"] / 1e12, acc.power, len(acc.engines)) == figures
    assert [engine.name for engine in acc.engines] == ["dla0", "dla1"][: len(acc.engines)]
    assert acc.memory == (round(gib * 2**20) * 1024 if gib else acc.memory)
    assert acc.unified_memory


@pytest.mark.parametrize(
    ("nodes", "states"),
    [
        ([], ["present", "present"]),
        (["/dev/nvhost-ctrl-nvdla0"], ["usable", "present"]),
        (["/dev/nvhost-nvdla0", "/dev/nvhost-nvdla1"], ["usable", "usable"]),
    ],
)
def test_an_engine_needs_a_second_witness(
    world: World, small: Catalog, nodes: list[str], states: list[str]
) -> None:
    host = world(tree("acme,small", "acme,soc", nodes=NODE) | dict.fromkeys(nodes, ""))
    acc = only(detect(host, small).accelerators)
    assert [engine.state for engine in acc.engines] == states


def test_memory_never_selects_a_sku_of_unknown_memory(world: World, catalog: Catalog) -> None:
    """The RK3582 is a reduced RK3588; RAM does not distinguish them."""
    host = world(
        tree("radxa,rock-5b", "rockchip,rk3588", nodes={"npu@fdab0000": "rockchip,rk3588-rknpu"})
        | memory(15.6)
    )
    acc = only(detect(host, catalog).accelerators)
    assert (acc.model, acc.name) == ("rk3588-npu", catalog.devices["rk3588-npu"].name)
    assert acc.peak["int8"] == catalog.devices["rk3588-npu"].peak["int8"]


MODES = (
    "< POWER_MODEL ID=0 NAME=MAXN >\nGPU MAX_FREQ -1\n"
    "< POWER_MODEL ID=1 NAME=MODE_5W >\nGPU MAX_FREQ 250000000\n"
)
FIVE_WATTS = {"/etc/nvpmodel.conf": MODES, "/var/lib/nvpmodel/status": "pmode:0001 fmode:quiet\n"}


@pytest.mark.parametrize(
    ("files", "share", "watts", "says"),
    [
        (IGPU, 1, 10, ""),
        (capped(max_freq="500000000"), 0.5, 10, "clock capped at 500 of 1000 MHz"),
        (capped(max_freq="998000000"), 1, 10, ""),  # a rounded figure of a data sheet is no cap
        (capped(max_freq="2000000000"), 1, 10, ""),
        (capped(max_freq="0"), 1, 10, ""),
        (capped(max_freq="-5"), 1, 10, ""),
        (capped(max_freq="fast"), 1, 10, ""),
        (capped(cur_freq="100"), 1, 10, ""),
        ({**IGPU, **FIVE_WATTS}, 0.25, 5, "power mode MODE_5W"),
        ({**capped(max_freq="500000000"), **FIVE_WATTS}, 0.5, 5, "clock capped at 500 of 1000 MHz"),
        ({**IGPU, **FIVE_WATTS, "/var/lib/nvpmodel/status": "pmode:0000\n"}, 1, 10, "power mode MAXN"),
        ({**IGPU, **FIVE_WATTS, "/var/lib/nvpmodel/status": "pmode:0007\n"}, 1, 10, ""),
        ({**IGPU, **FIVE_WATTS, "/var/lib/nvpmodel/status": "junk"}, 1, 10, ""),
        ({**IGPU, **FIVE_WATTS, "/etc/nvpmodel.conf": b"\xff\xfe< POWER_MODEL ID="}, 1, 10, ""),
    ],
)
def test_the_effective_peak_under_a_clock_cap(
    world: World, small: Catalog, files: Files, share: float, watts: float, says: str
) -> None:
    acc = only(detect(world(tree("acme,small", "acme,soc", nodes=NODE) | dict(files)), small).accelerators)
    assert acc.peak["fp16"] == 1e12
    assert acc.effective["fp16"] == pytest.approx(share * 1e12)
    assert acc.power == watts
    assert any(says in item.says for item in acc.evidence)


@pytest.mark.parametrize(
    ("files", "share"),
    [
        (usb("1-1", "aaaa:0001", speed="5000"), 1),
        (usb("1-1", "aaaa:0001", speed="10000"), 1),
        (usb("1-1", "aaaa:0001", speed="480"), 0.096),
        (usb("1-1", "aaaa:0001", speed="1.5"), 0.0003),
        (usb("1-1", "aaaa:0001", speed="0"), 1),
        (usb("1-1", "aaaa:0001", speed="junk"), 1),
        (pci("0000:01:00.0", "aaaa:1000", link="8.0 GT/s x4 of 8.0 GT/s x4"), 1),
        (pci("0000:01:00.0", "aaaa:1000", link="8.0 GT/s x1 of 8.0 GT/s x4"), 0.5),
        (pci("0000:01:00.0", "aaaa:1000", link="2.5 GT/s x1 of 8.0 GT/s x4"), 2.5 / 16),
        (pci("0000:01:00.0", "aaaa:1000", link="Unknown x0 of 8.0 GT/s x4"), 1),
        (pci("0000:01:00.0", "aaaa:1000", link="8.0 GT/s x99 of 8.0 GT/s x4"), 1),
        (pci("0000:01:00.0", "aaaa:1000"), 1),
    ],
)
def test_the_effective_peak_under_a_link(world: World, small: Catalog, files: Files, share: float) -> None:
    acc = only(detect(world(files), small).accelerators)
    assert acc.effective["int8"] == pytest.approx(share * acc.peak["int8"])
    assert any("of what the peak" in item.says for item in acc.evidence) == (share < 1)


def test_the_maximum_link_rate_is_at_least_the_present_one(world: World, small: Catalog) -> None:
    files = pci("0000:01:00.0", "aaaa:1000", link="8.0 GT/s x4 of 2.5 GT/s x1")
    link = only(detect(world(files), small).accelerators).link
    assert link is not None
    assert link.to_json() == {"bits_per_second": 32_000_000_000, "best_bits_per_second": 32_000_000_000}


def test_differing_candidates_have_the_least_peak_and_the_most_power(world: World, small: Catalog) -> None:
    acc = only(detect(world(pci("0000:01:00.0", "aaaa:2000")), small).accelerators)
    assert (acc.model, acc.candidates) == (None, ("twin-a", "twin-b"))
    assert acc.peak == {"int8": 10e12}
    assert acc.power == small.devices["twin-a"].power
    assert not acc.shareable


@pytest.mark.parametrize(
    ("text", "amount"),
    [("206141652992\n", 206141652992), ("0\n", 192 * GIB), ("junk", 192 * GIB), ("-4", 192 * GIB)],
)
def test_the_memory_of_amdgpu_overrides_the_catalog(
    world: World, catalog: Catalog, text: str, amount: int
) -> None:
    host = world(pci("0000:01:00.0", "1002:74a1", driver="amdgpu", mem_info_vram_total=text))
    acc = only(detect(host, catalog).accelerators)
    assert (acc.model, acc.unified_memory) == ("mi300x", False)
    assert acc.memory == amount
