"""Accelerators as discovery describes them, for tests that start after discovery."""

from fairlead.inventory import Accelerator, Inventory, Machine, State
from fairlead.units import Bytes


def accelerator(
    bus: str = "pci:0000:01:00.0",
    *,
    vendor: str = "Test",
    kind: str = "npu",
    driver: str | None = None,
    unified: bool = False,
    uuid: str | None = None,
    state: State = State.HEALTHY,
    name: str = "Test Device",
    model: str = "test-device",
    mebibytes: int | None = None,
    node: str | None = None,
) -> Accelerator:
    """Return an accelerator on a bus; one with memory can be shared."""
    where, _, address = bus.partition(":")
    return Accelerator(
        id=bus.replace(":", "-").replace(".", "-").lower(),
        model=model,
        name=name,
        vendor=vendor,
        kind=kind,
        state=state,
        reason="" if state is State.HEALTHY else "not yet",
        confidence=0.9,
        candidates=(model,),
        bus=bus,
        memory=None if mebibytes is None else Bytes(mebibytes << 20),
        shareable=mebibytes is not None,
        node=node,
        driver=driver,
        unified_memory=unified,
        uuid=uuid,
        path=f"/sys/bus/{where}/devices/{address}" if where in ("pci", "usb", "platform") else "",
    )


def node(*accelerators: Accelerator) -> Inventory:
    """Return the inventory of a node with these accelerators."""
    return Inventory(Machine(), accelerators)
