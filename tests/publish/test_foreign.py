"""Memory of processes outside pods is not handed out, and small or short changes write nothing."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fairlead.inventory import Inventory, Machine
from fairlead.publish.foreign import ForeignReserve, follow
from fairlead.publish.offers import OfferPlan, offers
from fairlead.publish.slices import slices
from fairlead.units import Bytes
from tests.accelerators import accelerator

MIB = 1 << 20
STEP, CALM = 256, 6
"""MiB of a step, and the samples that must be lower."""
GPU = replace(
    accelerator("pci:0000:3b:00.0", vendor="NVIDIA", kind="gpu", driver="nvidia"),
    memory=Bytes(4096 * MIB),
    shareable=True,
)
INVENTORY = Inventory(Machine(), (GPU,))


def run(*mebibytes: float) -> list[int]:
    """Return what is withheld after each sample of foreign use."""
    reserve, withheld = ForeignReserve(), []
    for used in mebibytes:
        reserve = follow(reserve, {"gpu": Bytes(int(used * MIB))})
        withheld.append(reserve.mebibytes["gpu"])
    return withheld


def test_it_is_withheld_at_once_in_steps() -> None:
    assert run(0, 1, 256, 256.5, 3000) == [0, 256, 256, 512, 3072]


def test_less_is_withheld_only_after_several_lower_samples() -> None:
    assert run(1000, *[0] * (CALM - 1)) == [1024] * CALM
    assert run(1000, *[0] * CALM)[-1] == 0
    assert run(1000, 0, 0, 400, *[0] * (CALM - 3))[-1] == 512
    assert run(1000, *[0] * (CALM - 1), 1000, 0, 0) == [1024] * (CALM + 3)


def test_what_is_not_measured_stays_withheld() -> None:
    reserve = follow(ForeignReserve(), {"gpu": Bytes(MIB)})
    assert follow(reserve, {}) == reserve


@given(st.lists(st.integers(0, 8192), min_size=1, max_size=60))
def test_at_least_the_present_use_is_withheld_and_at_most_a_step_above_a_recent_one(used: list[int]) -> None:
    for at, withheld in enumerate(run(*used)):
        recent = max(used[max(0, at - 2 * CALM) : at + 1])
        assert used[at] <= withheld < recent + STEP
        assert withheld % STEP == 0


def test_less_memory_is_offered_and_the_whole_accelerator_still_is() -> None:
    held = follow(ForeignReserve(), {GPU.id: Bytes(1000 * MIB)}).holdings()
    healthy = {
        offer.resource: sum(block.count for block in offer.blocks if block.healthy)
        for offer in offers(INVENTORY, held, OfferPlan())
    }
    assert healthy == {"fairlead.dev/gpu-mem": 4096 - 1024, "fairlead.dev/test-device": 1}
    (row,) = slices("node", "", INVENTORY, held, 0)
    assert row["spec"]["devices"][0]["capacity"]["memory"]["value"] == "3Gi"
    assert follow(ForeignReserve(), {GPU.id: Bytes(0)}).holdings() == ()
