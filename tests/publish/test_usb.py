"""The nodes of a stick: its own, and those under which it may reconnect."""

import pytest

from fairlead.offer import DeviceNode
from fairlead.publish.usb import usb_nodes
from tests.accelerators import accelerator
from tests.worlds import Entry, World, usb


def neighbours(*numbers: int) -> dict[str, Entry]:
    """Return other devices on the same bus."""
    world: dict[str, Entry] = {}
    for number in numbers:
        world |= usb(f"1-{number}", "1d6b:0002", number=number)
    return world


@pytest.mark.parametrize(
    ("own", "others", "ahead"),
    [
        (5, (1,), range(6, 14)),
        (2, (1, 5), range(6, 14)),
        (2, (1, 7, 9), range(10, 18)),
        (125, (1, 2, 4), (126, 127, 3, 5, 6, 7, 8, 9)),
        (127, (), range(2, 10)),
        (5, tuple(range(1, 128)), ()),
        (5, tuple(range(1, 127)), (127,)),
    ],
)
def test_the_next_free_numbers_are_granted(
    own: int, others: tuple[int, ...], ahead: tuple[int, ...], world: World
) -> None:
    acc = accelerator("usb:1-1", node=f"/dev/bus/usb/001/{own:03d}")
    nodes = usb_nodes(acc, world({**neighbours(*others), **usb("1-1", "1a6e:089a", number=own)}))
    assert nodes == [
        DeviceNode(f"/dev/bus/usb/001/{number:03d}", f"/dev/bus/usb/001/{number:03d}", 189, number - 1)
        for number in (own, *ahead)
    ]


def test_another_bus_is_another_range(world: World) -> None:
    acc = accelerator("usb:3-1", node="/dev/bus/usb/003/004")
    minors = [node.minor for node in usb_nodes(acc, world(neighbours(1, 50)))]
    assert minors == list(range(259, 268))


@pytest.mark.parametrize("node", [None, "", "/dev/apex_0", "/dev/bus/usb/001/0005", "/dev/bus/usb/../../sda"])
def test_without_a_node_nothing_is_granted(node: str | None, world: World) -> None:
    assert usb_nodes(accelerator("usb:1-1", node=node), world({})) == []
