"""Pod resources are read soon after an allocation, and not once for each container."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.offer import Form, Holding
from fairlead.publish.ledger import UNNAMED
from fairlead.serve.agent.pod_resources_tracker import PodResourcesTracker
from fairlead.settings.publishing import PublishConfig
from tests.accelerators import accelerator, node

GPU = accelerator("pci:0000:01:00.0", kind="gpu", model="gpu-a", mebibytes=8192)


class Timers(asyncio.SelectorEventLoop):
    """An event loop that keeps delayed calls, and makes none of them by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.later: list[Callable[[], object]] = []

    def call_later(self, delay: float, callback: Any, *args: Any, **_: Any) -> Any:  # type: ignore[override]  # as it is used here
        """Keep the call."""
        self.later.append(lambda: callback(*args))
        return object()


def test_allocations_for_many_containers_make_one_read_due(tmp_path: Path) -> None:
    loop, now = Timers(), [100.0]

    async def play() -> None:
        tracker = PodResourcesTracker(
            PublishConfig("n1", warden=tmp_path), asyncio.Event(), lambda _: None, lambda: now[0]
        )
        tracker._inventory = node(GPU)  # else a read of the kubelet must come first
        for at in range(50):
            tracker.record_allocation([Holding(GPU.id, Form.MEMORY, UNNAMED, 1, ((at, at),))])
            now[0] += 0.03
        assert len(loop.later) == 1
        now[0] += 1.0
        loop.later.pop()()
        assert len(loop.later) == 1, "the last allocation was less than two seconds ago"
        now[0] += 2.0
        loop.later.pop()()
        assert not loop.later
        tracker.record_allocation([Holding(GPU.id, Form.MEMORY, UNNAMED, 1, ((60, 60),))])
        assert len(loop.later) == 1

    try:
        loop.run_until_complete(play())
    finally:
        loop.close()


def test_stored_claims_of_a_newer_format_are_left_to_pod_resources_and_named(tmp_path: Path) -> None:
    said: list[str] = []
    config = PublishConfig("n1", warden=tmp_path)
    tracker = PodResourcesTracker(config, asyncio.Event(), said.append, lambda: 0.0)
    tracker._file.parent.mkdir(parents=True, exist_ok=True)
    tracker._file.write_text('{"version":2,"claims":[]}')
    assert list(tracker._load_claims()) == []
    assert "prepared-claims format 2" in said[0]
