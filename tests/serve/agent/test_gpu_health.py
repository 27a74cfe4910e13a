"""A GPU that fails: within one sample it is unhealthy everywhere, and nothing is placed on it."""

from dataclasses import dataclass, field

import pytest

from fairlead.annotations import parse_devices
from fairlead.catalog import Catalog
from fairlead.faults import XidPolicy
from fairlead.host import Host
from fairlead.inventory import Accelerator, Inventory, State
from fairlead.metrics import PublishStatus
from fairlead.nvml import Health
from fairlead.publish.devices import devices
from fairlead.publish.offers import OfferPlan, offers
from fairlead.publish.slices import slices
from fairlead.serve.agent.agent import Agent, AgentClock
from fairlead.serve.agent.monitor import MachineMonitor, NvmlReconnector
from fairlead.settings.agent import AgentSettings
from fairlead.units import Seconds
from tests.serve.agent.test_monitor import FIRST, SECOND, Driver
from tests.worlds import Entry, World, memory, pci

WELL = Health(uncorrected_volatile=0, remap_failed=False)
BAD = {"ecc": Health(uncorrected_volatile=1), "bus": Health(lost=True), "row": Health(remap_failed=True)}
SETTINGS = AgentSettings(sweep=Seconds(1000.0), sample=Seconds(10.0))


@dataclass
class Office:
    """Whoever publishes: keeps what it was offered."""

    offered: list[Inventory] = field(default_factory=list)
    failed: str = ""

    def offer(self, inventory: Inventory) -> None:
        self.offered.append(inventory)

    def problem(self) -> str:
        return ""

    def snapshot(self) -> PublishStatus:
        return PublishStatus()


@dataclass
class Node:
    """A machine with two T4, its driver, and the agent on it."""

    agent: Agent
    driver: Driver
    office: Office
    said: list[str]
    now: list[float]

    def next_sample(self) -> None:
        self.now[0] += 10
        self.agent.step()

    def first(self) -> Accelerator:
        return next(acc for acc in self.office.offered[-1].accelerators if acc.bus == f"pci:{FIRST}")


def node(world: World, catalog: Catalog, policy: XidPolicy | None = None) -> Node:
    files: dict[str, Entry] = dict(memory(4))
    for minor, address in enumerate((FIRST, SECOND)):
        files |= pci(address, "10de:1eb8", kind="0x030200", driver="nvidia")
        text = f"Model: \t\t Tesla T4\nDevice Minor: \t {minor}\n"
        files |= {f"/proc/driver/nvidia/gpus/{address}/information": text, f"/dev/nvidia{minor}": ""}
    root = world(files).root
    driver = Driver([FIRST, SECOND], health={0: WELL, 1: WELL})
    office, said, now = Office(), list[str](), [0.0]
    watch = MachineMonitor(lambda: Host(root, here=True), catalog, NvmlReconnector(driver.session), policy)
    clock = AgentClock(lambda: now[0], lambda: 1e9 + now[0])
    made = Node(Agent(SETTINGS, watch, said.append, clock, office), driver, office, said, now)
    made.agent.step()
    assert [acc.state for acc in office.offered[-1].accelerators if acc.kind == "gpu"] == [State.HEALTHY] * 2
    return made


def fail(made: Node, kind: str) -> None:
    """Let the first GPU fail."""
    if kind == "xid":
        made.driver.events.append((0, 79))
    else:
        bad = {
            "ecc": Health(uncorrected_volatile=1),
            "bus": Health(lost=True),
            "row": Health(remap_failed=True),
        }
        made.driver.health[0] = bad[kind]


@pytest.mark.parametrize("kind", ["xid", "ecc", "bus", "row"])
def test_a_gpu_that_fails_is_unhealthy_within_one_sample(world: World, catalog: Catalog, kind: str) -> None:
    made = node(world, catalog)
    fail(made, kind)
    made.next_sample()
    assert len(made.office.offered) == 2
    acc, inventory = made.first(), made.office.offered[-1]
    assert not acc.state.allocatable
    assert any(line.startswith(f"{acc.id}: ") and acc.reason in line for line in made.said)
    whole = next(offer for offer in offers(inventory, (), OfferPlan()) if offer.resource.endswith("/t4"))
    assert [block.healthy for block in whole.blocks] == [False, True]
    listed = {each.id: each for each in parse_devices(devices(inventory, ())) or ()}
    assert (listed[acc.id].healthy, listed[acc.id].reason) == (False, acc.reason)
    named = [
        device["name"] for slice_ in slices("n", "", inventory, (), 1) for device in slice_["spec"]["devices"]
    ]
    assert acc.id not in named
    assert len(named) == 1
    page = made.agent.page().decode()
    assert f'fairlead_accelerator_state{{id="{acc.id}",model="t4",state="healthy"}} 0.0' in page


def test_what_does_not_change_is_not_published_again(world: World, catalog: Catalog) -> None:
    made = node(world, catalog)
    made.driver.health[0] = Health(uncorrected_volatile=1)
    made.next_sample()
    made.driver.health[0] = Health(uncorrected_volatile=2)
    made.next_sample()
    assert len(made.office.offered) == 2


def test_memory_errors_that_are_cleared_end_with_the_next_sample(world: World, catalog: Catalog) -> None:
    made = node(world, catalog)
    fail(made, "ecc")
    made.next_sample()
    made.driver.health[0] = WELL
    made.next_sample()
    assert made.first().state is State.HEALTHY


def test_a_fatal_xid_outlives_a_scan_and_a_session(world: World, catalog: Catalog) -> None:
    made = node(world, catalog)
    fail(made, "xid")
    made.next_sample()
    made.now[0] += 2000
    made.agent.step()
    assert made.first().reason.startswith("the driver reported XID 79")


def test_an_xid_between_a_sample_and_a_scan_is_not_lost(world: World, catalog: Catalog) -> None:
    made = node(world, catalog)
    fail(made, "xid")
    made.agent.scan("sweep")
    assert made.first().reason.startswith("the driver reported XID 79")


@pytest.mark.parametrize("xid", [13, 79])
def test_xids_that_are_ignored_are_shown_and_change_nothing(world: World, catalog: Catalog, xid: int) -> None:
    made = node(world, catalog, XidPolicy(frozenset({13, 79})))
    made.driver.events.append((0, xid))
    made.next_sample()
    assert made.first().state is State.HEALTHY
    page = made.agent.page().decode()
    assert f'fairlead_accelerator_last_xid{{id="{made.first().id}",model="t4"}} {xid}.0' in page
    shown = [line for line in page.splitlines() if line.startswith("DCGM_FI_DEV_XID_ERROR")]
    assert sorted(line.rpartition(" ")[2] for line in shown) == sorted(["0.0", "0.0", f"{xid}.0", f"{xid}.0"])
