"""The device nodes of a USB stick, also those under which it may reconnect.

A stick that loads its firmware leaves the bus and joins it again under the next free number. A container
with one node would lose the stick in that moment. So it gets the nodes of the next few numbers as well, by
major and minor number, though they do not exist yet.
"""

import re
from typing import Final

from fairlead.host import Host
from fairlead.inventory import Accelerator
from fairlead.offer import DeviceNode

MAJOR: Final = 189
"""The major number of every USB device node."""
AHEAD: Final = 8
"""Numbers that are granted in advance: a stick that restarts takes one, or two."""
_LAST: Final = 127
_BUS: Final = 128
"""Minor numbers of a bus."""
_DEVICES: Final = "/sys/bus/usb/devices"
_NODE: Final = re.compile(r"/dev/bus/usb/([0-9]{3})/([0-9]{3})")


def usb_nodes(acc: Accelerator, host: Host) -> list[DeviceNode]:
    """Return the stick's own node and those it may have next; never one that another device has now.

    The kernel counts upwards and begins again after 127. A device that is plugged in later may get a number
    that was granted in advance: until the container ends, it could open that device as well.
    """
    match = _NODE.fullmatch(acc.node or "")
    if match is None:
        return []
    bus, own = int(match[1]), int(match[2])
    taken = _taken(host, bus) | {own}
    order = [*range(max(taken) + 1, _LAST + 1), *range(2, max(taken))]  # 1 is the bus itself
    ahead = [number for number in order if number not in taken][:AHEAD]
    return [_node(bus, number) for number in (own, *ahead)]


def _taken(host: Host, bus: int) -> set[int]:
    """Return the numbers that are in use on a bus."""
    numbers = {int(name) for name in host.names(f"/dev/bus/usb/{bus:03d}") if re.fullmatch("[0-9]{3}", name)}
    for port in host.names(_DEVICES):
        if ":" not in port and host.number(f"{_DEVICES}/{port}/busnum") == bus:
            numbers.add(host.number(f"{_DEVICES}/{port}/devnum") or 0)
    return {number for number in numbers if 0 < number <= _LAST}


def _node(bus: int, number: int) -> DeviceNode:
    path = f"/dev/bus/usb/{bus:03d}/{number:03d}"
    return DeviceNode(path, path, MAJOR, (bus - 1) * _BUS + number - 1)
