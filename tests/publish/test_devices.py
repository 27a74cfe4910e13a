"""The list of a node's accelerators: parsed as it was written, and no other text is accepted."""

from dataclasses import replace

import pytest

from fairlead.annotations import AnnotatedAccelerator, parse_devices
from fairlead.inventory import State
from fairlead.publish.devices import devices
from tests.accelerators import accelerator, node

GPU = accelerator("pci:0000:01:00.0", kind="gpu", model="gpu-a", mebibytes=8192)
STICK = replace(
    accelerator("pci:0000:02:00.0", model="stick", state=State.PRESENT), reason="its driver is missing"
)
BOARD = accelerator("pci:0000:03:00.0", kind="gpu", model="board", mebibytes=4096, unified=True)


def test_a_written_list_is_parsed() -> None:
    assert parse_devices(devices(node(STICK, GPU, BOARD), {GPU.id})) == (
        AnnotatedAccelerator(GPU.id, "gpu-a", "Test", 8192, shareable=True, by_units=True),
        AnnotatedAccelerator(STICK.id, "stick", "Test", 0, healthy=False, reason="its driver is missing"),
        AnnotatedAccelerator(BOARD.id, "board", "Test", 4096, shareable=True, unified=True),
    )


def test_a_machine_without_accelerators_has_an_empty_list() -> None:
    assert parse_devices(devices(node(), ())) == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "{}x",
        "7",
        '["a"]',
        "[{}]",
        '[{"id":"a","model":"b","vendor":"c","memory_mib":-1}]',
        '[{"id":"a","model":"b","vendor":"c","memory_mib":1.5}]',
        '[{"id":"a","model":"b","vendor":"c","memory_mib":true}]',
        "[" * 100_000,
    ],
)
def test_a_text_that_no_agent_wrote_is_not_accepted(text: str) -> None:
    assert parse_devices(text) is None
