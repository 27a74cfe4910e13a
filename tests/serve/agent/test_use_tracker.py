"""The use of pods on the agent's page: under their names, with their peaks, and gone when they are."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from fairlead.attribution.client import ContainerShare, DeviceShares
from fairlead.errors import AttributionError
from fairlead.inventory import Accelerator, Inventory, Machine
from fairlead.serve.agent.container_names import ContainerName, container_names
from fairlead.serve.agent.use_tracker import UseTracker, accelerator_of
from fairlead.units import Bytes
from fairlead.use import AttributedUse, ContainerUse
from tests.accelerators import accelerator

CARD = accelerator("pci:0000:3b:00.0", vendor="NVIDIA", kind="gpu", uuid="GPU-1")
OTHER = accelerator("pci:0000:86:00.0", vendor="NVIDIA", kind="gpu", uuid="GPU-2")
ORIN = accelerator("platform:17000000.gpu", vendor="NVIDIA", kind="gpu", unified=True)
RADEON = accelerator("pci:0000:03:00.0", vendor="AMD", kind="gpu", driver="amdgpu")
UID, SECOND = "0d1b6f2a-3c4e-4f5a-8b9c-001122334455", "11111111-3c4e-4f5a-8b9c-001122334455"
ID, SIDECAR, LATER = "c0" * 32, "ab" * 32, "de" * 32
WEB = ("shop", "web-0", "main")


@dataclass
class Node:
    """A node whose attribution program is scripted."""

    links: Path
    lines: list[str] = field(default_factory=list)
    answer: tuple[DeviceShares, ...] | None = ()

    def read(self, socket: Path) -> tuple[DeviceShares, ...]:
        if self.answer is None:
            raise AttributionError(f"{socket}: connection refused", "look")
        return self.answer

    def run(self, container: str, namespace: str, pod: str, name: str) -> None:
        (self.links / f"{pod}_{namespace}_{name}-{container}.log").symlink_to("/var/log/pods/x")

    def end(self, container: str) -> None:
        for link in self.links.glob(f"*{container}.log"):
            link.unlink()

    def measure(self, *containers: ContainerShare, foreign: int | None = 0) -> None:
        size = None if foreign is None else Bytes(foreign)
        self.answer = (DeviceShares("GPU-1", "pci:0000:3b:00.0", size, containers),)

    def tracker(self) -> UseTracker:
        return UseTracker(Path("/run/x"), self.lines.append, self.links, self.read)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


INVENTORY = Inventory(Machine(), (CARD, OTHER))


def test_use_appears_under_the_containers_name_and_goes_with_the_pod(node: Node) -> None:
    tracker = node.tracker()
    node.run(ID, *("shop", "web-0", "main"))
    node.measure(ContainerShare(UID, ID, Bytes(700), 0.5), foreign=30)
    web = ContainerUse(UID, CARD.id, *WEB, memory=Bytes(700), peak=Bytes(700), busy=0.5)
    assert tracker.use(INVENTORY) == AttributedUse(up=True, containers=(web,), foreign={CARD.id: Bytes(30)})
    node.measure(ContainerShare(UID, ID, Bytes(200), None), foreign=None)
    lower = replace(web, memory=Bytes(200), busy=None)
    assert tracker.use(INVENTORY) == AttributedUse(up=True, containers=(lower,), foreign={})
    node.end(ID)
    node.measure()
    assert tracker.use(INVENTORY).containers == ()
    assert tracker._peaks == {}


def test_a_peak_survives_a_restart_of_the_container_and_ends_with_the_pod(node: Node) -> None:
    tracker = node.tracker()
    node.run(ID, *WEB)
    node.measure(ContainerShare(UID, ID, Bytes(700), None))
    tracker.use(INVENTORY)
    node.measure()
    tracker.use(INVENTORY)
    node.end(ID)
    node.run(LATER, *WEB)
    node.measure(ContainerShare(UID, LATER, Bytes(50), None))
    assert tracker.use(INVENTORY).containers[0].peak == 700
    node.measure(ContainerShare(SECOND, LATER, Bytes(50), None))  # a new pod of the same name
    assert tracker.use(INVENTORY).containers[0].peak == 50
    assert [key[0] for key in tracker._peaks] == [SECOND]


def test_containers_without_a_name_are_added_up(node: Node) -> None:
    node.run(ID, *WEB)
    node.measure(
        ContainerShare(UID, ID, Bytes(1), 0.5),
        ContainerShare(UID, "", Bytes(2), 0.5),
        ContainerShare(SECOND, SIDECAR, Bytes(3), 0.75),
        ContainerShare(SECOND, LATER, Bytes(4), 0.75),
        ContainerShare(SECOND, "", None, 0.1),
    )
    uses = node.tracker().use(INVENTORY).containers
    assert [(use.namespace, use.pod, use.container, use.memory, use.busy) for use in uses] == [
        (*WEB, 1, 0.5),
        ("shop", "web-0", "", 2, 0.5),
        ("", "", "", None, 1.0),
    ]


def test_a_program_that_does_not_answer_is_logged_once_and_is_not_zero(node: Node) -> None:
    tracker = node.tracker()
    node.answer = None
    for _ in range(3):
        assert tracker.use(INVENTORY) == AttributedUse(up=False)
    node.measure()
    assert tracker.use(INVENTORY).up
    assert node.lines == [
        "the use by pod cannot be read: /run/x/use.sock: connection refused; look",
        "the use by pod is read again",
    ]


@pytest.mark.parametrize(
    ("uuid", "bus", "expected"),
    [
        ("GPU-2", "pci:0000:3b:00.0", OTHER),
        ("GPU-9", "pci:0000:86:00.0", OTHER),
        ("", "pci:0000:03:00.0", RADEON),
        ("", "nvmap", ORIN),
        ("", "pci:0000:99:00.0", None),
        ("", "", None),
    ],
)
def test_the_accelerator_of_a_device(uuid: str, bus: str, expected: Accelerator | None) -> None:
    inventory = Inventory(Machine(), (CARD, OTHER, RADEON, ORIN))
    assert accelerator_of(DeviceShares(uuid, bus, None, ()), inventory) == expected


def test_names_come_from_links_of_the_kubelets_form_only(tmp_path: Path) -> None:
    pod = "web-0.example_shop_main"
    for name in (
        f"{pod}-{ID}.log",
        f"{pod}-{ID[:-1]}.log",
        f"{pod}-{SIDECAR}.txt",
        f"A_b_c-{LATER}.log",
        "x",
    ):
        (tmp_path / name).touch()
    assert container_names(tmp_path) == {ID: ContainerName("shop", "web-0.example", "main")}
    assert container_names(tmp_path / "absent") == {}
