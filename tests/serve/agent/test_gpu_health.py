"""A GPU that fails: within one sample it is unhealthy in every output, and gets no more work."""

from dataclasses import dataclass, field

import pytest

from fairlead.annotations import parse_devices
from fairlead.catalog import Catalog
from fairlead.faults import XidPolicy
from fairlead.host import Host
from fairlead.inventory import Accelerator, Inventory, State
from fairlead.metrics import PublishStatus
from fairlead.nvml import Health
from fairlead.offer import Holding
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
class FakePublisher:
    """A publisher that keeps the inventories it was given."""

    offered: list[Inventory] = field(default_factory=list)
    failed: str = ""
    withheld: tuple[Holding, ...] = ()

    def offer(self, inventory: Inventory) -> None:
        self.offered.append(inventory)

    def withhold(self, withheld: tuple[Holding, ...]) -> None:
        self.withheld = withheld

    def problem(self) -> str:
        return ""

    def snapshot(self) -> PublishStatus:
        return PublishStatus()


@dataclass
class Node:
    """A machine with two T4, its driver, and the agent on it."""

    agent: Agent
    driver: Driver
    publisher: FakePublisher
    lines: list[str]
    now: list[float]

    def next_sample(self) -> None:
        self.now[0] += 10
        self.agent.step()

    def first(self) -> Accelerator:
        return next(acc for acc in self.publisher.offered[-1].accelerators if acc.bus == f"pci:{FIRST}")


def node(world: World, catalog: Catalog, policy: XidPolicy | None = None) -> Node:
    files: dict[str, Entry] = dict(memory(4))
    for minor, address in enumerate((FIRST, SECOND)):
        files |= pci(address, "10de:1eb8", kind="0x030200", driver="nvidia")
        text = f"Model: \t\t Tesla T4\nDevice Minor: \t {minor}\n"
        files |= {f"/proc/driver/nvidia/gpus/{address}/information": text, f"/dev/nvidia{minor}": ""}
    root = world(files).root
    driver = Driver([FIRST, SECOND], health={0: WELL, 1: WELL})
    publisher, lines, now = FakePublisher(), list[str](), [0.0]
    monitor = MachineMonitor(lambda: Host(root, here=True), catalog, NvmlReconnector(driver.session), policy)
    clock = AgentClock(lambda: now[0], lambda: 1e9 + now[0])
    node_ = Node(Agent(SETTINGS, monitor, lines.append, clock, publisher), driver, publisher, lines, now)
    node_.agent.step()
    assert [acc.state for acc in publisher.offered[-1].accelerators if acc.kind == "gpu"] == [
        State.HEALTHY
    ] * 2
    return node_


def fail(node_: Node, kind: str) -> None:
    """Make the first GPU fail."""
    if kind == "xid":
        node_.driver.events.append((0, 79))
    else:
        bad = {
            "ecc": Health(uncorrected_volatile=1),
            "bus": Health(lost=True),
            "row": Health(remap_failed=True),
        }
        node_.driver.health[0] = bad[kind]


@pytest.mark.parametrize("kind", ["xid", "ecc", "bus", "row"])
def test_a_gpu_that_fails_is_unhealthy_within_one_sample(world: World, catalog: Catalog, kind: str) -> None:
    node_ = node(world, catalog)
    fail(node_, kind)
    node_.next_sample()
    assert len(node_.publisher.offered) == 2
    acc, inventory = node_.first(), node_.publisher.offered[-1]
    assert not acc.state.allocatable
    assert any(line.startswith(f"{acc.id}: ") and acc.reason in line for line in node_.lines)
    whole = next(offer for offer in offers(inventory, (), OfferPlan()) if offer.resource.endswith("/t4"))
    assert [block.healthy for block in whole.blocks] == [False, True]
    listed = {each.id: each for each in parse_devices(devices(inventory, ())) or ()}
    assert (listed[acc.id].healthy, listed[acc.id].reason) == (False, acc.reason)
    named = [
        device["name"] for slice_ in slices("n", "", inventory, (), 1) for device in slice_["spec"]["devices"]
    ]
    assert acc.id not in named
    assert len(named) == 1
    page = node_.agent.page().decode()
    assert f'fairlead_accelerator_state{{id="{acc.id}",model="t4",state="healthy"}} 0.0' in page


def test_an_unchanged_inventory_is_not_published_again(world: World, catalog: Catalog) -> None:
    node_ = node(world, catalog)
    node_.driver.health[0] = Health(uncorrected_volatile=1)
    node_.next_sample()
    node_.driver.health[0] = Health(uncorrected_volatile=2)
    node_.next_sample()
    assert len(node_.publisher.offered) == 2


def test_memory_errors_that_are_cleared_end_with_the_next_sample(world: World, catalog: Catalog) -> None:
    node_ = node(world, catalog)
    fail(node_, "ecc")
    node_.next_sample()
    node_.driver.health[0] = WELL
    node_.next_sample()
    assert node_.first().state is State.HEALTHY


def test_a_fatal_xid_outlives_a_scan_and_a_session(world: World, catalog: Catalog) -> None:
    node_ = node(world, catalog)
    fail(node_, "xid")
    node_.next_sample()
    node_.now[0] += 2000
    node_.agent.step()
    assert node_.first().reason.startswith("the driver reported XID 79")


def test_an_xid_between_a_sample_and_a_scan_is_not_lost(world: World, catalog: Catalog) -> None:
    node_ = node(world, catalog)
    fail(node_, "xid")
    node_.agent.scan("sweep")
    assert node_.first().reason.startswith("the driver reported XID 79")


@pytest.mark.parametrize("xid", [13, 79])
def test_xids_that_are_ignored_are_shown_and_change_nothing(world: World, catalog: Catalog, xid: int) -> None:
    node_ = node(world, catalog, XidPolicy(frozenset({13, 79})))
    node_.driver.events.append((0, xid))
    node_.next_sample()
    assert node_.first().state is State.HEALTHY
    page = node_.agent.page().decode()
    assert f'fairlead_accelerator_last_xid{{id="{node_.first().id}",model="t4"}} {xid}.0' in page
    shown = [line for line in page.splitlines() if line.startswith("DCGM_FI_DEV_XID_ERROR")]
    assert sorted(line.rpartition(" ")[2] for line in shown) == sorted(["0.0", "0.0", f"{xid}.0", f"{xid}.0"])
