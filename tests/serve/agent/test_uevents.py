"""Kernel uevents: their format, which ones matter, and that real ones arrive."""

import select

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.serve.agent.uevents import Uevent, UeventSocket, parse

NULL = "/sys/devices/virtual/mem/null/uevent"
PCI = b"add@/devices/pci0000:00/0000:01:00.0\0ACTION=add\0DEVPATH=/devices/x\0SUBSYSTEM=pci\0SEQNUM=1\0"


@pytest.mark.parametrize(
    ("message", "event"),
    [
        (PCI, Uevent("add", "/devices/pci0000:00/0000:01:00.0", "pci")),
        (b"remove@/devices/usb1/1-1\0SUBSYSTEM=usb\0", Uevent("remove", "/devices/usb1/1-1", "usb")),
        (b"change@/x\0", Uevent("change", "/x", "")),
        (b"bind@/a\xff\n\0SUBSYSTEM\0=\0\0", Uevent("bind", "/a\ufffd\ufffd", "")),
        (b"libudev\0\xfe\xed\xca\xfe@/x", None),
        (b"add@relative\0", None),
        (b"@/x\0", None),
        (b"", None),
    ],
)
def test_messages_are_parsed(message: bytes, event: Uevent | None) -> None:
    assert parse(message) == event


@given(st.binary(max_size=300) | st.binary(max_size=100).map(lambda tail: PCI + tail))
def test_no_message_makes_the_parser_fail(message: bytes) -> None:
    event = parse(message)
    assert event is None or (event.path + event.subsystem).isprintable()


@pytest.mark.parametrize(
    "subsystem", ["pci", "usb", "accel", "apex", "hailo_chardev", "platform", "devfreq", "drm"]
)
def test_some_subsystems_can_hold_an_accelerator(subsystem: str) -> None:
    assert Uevent("add", "/x", subsystem).matters


@pytest.mark.parametrize("subsystem", ["block", "net", "mem", "power_supply", ""])
def test_other_subsystems_cannot(subsystem: str) -> None:
    assert not Uevent("add", "/x", subsystem).matters


def test_a_real_uevent_arrives() -> None:
    try:
        sock = UeventSocket.open()
    except OSError as error:
        pytest.skip(f"this sandbox has no kernel events: {error}")
    try:
        _trigger()
        assert select.select([sock], [], [], 10)[0], "no uevent within ten seconds"
        events, lost = sock.read()
        assert Uevent("add", "/devices/virtual/mem/null", "mem") in events
        assert not lost
        assert not sock.changed()
    finally:
        sock.close()


def _trigger() -> None:
    try:
        with open(NULL, "w", encoding="ascii") as place:
            place.write("add")
    except OSError as error:
        pytest.skip(f"only root can trigger a uevent: {error}")
