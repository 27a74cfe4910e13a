"""Accelerators as discovery describes them, for tests that start after discovery."""

from fairlead.inventory import Accelerator, State


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
) -> Accelerator:
    """Return an accelerator that sits on a bus."""
    where, _, address = bus.partition(":")
    return Accelerator(
        id=bus.replace(":", "-").replace(".", "-").lower(),
        model="test-device",
        name=name,
        vendor=vendor,
        kind=kind,
        state=state,
        reason="" if state is State.HEALTHY else "not yet",
        confidence=0.9,
        candidates=("test-device",),
        bus=bus,
        driver=driver,
        unified_memory=unified,
        uuid=uuid,
        path=f"/sys/bus/{where}/devices/{address}" if where in ("pci", "usb", "platform") else "",
    )
