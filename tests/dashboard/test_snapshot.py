"""A snapshot as a source."""

import asyncio

from fairlead.catalog import load
from fairlead.dashboard.answers import WhyAnswer
from fairlead.dashboard.row_types import DeviceRow, WorkloadRow
from fairlead.dashboard.sources.snapshot import SnapshotSource
from tests.dashboard.samples import cluster


def source() -> SnapshotSource:
    return SnapshotSource(cluster(12, 24), "cluster.json", load(), lambda: 1e9)


async def decided(shown: SnapshotSource, *keys: str) -> list[WhyAnswer | None]:
    async with shown.running():
        await shown.board.changed(shown.board.revision)
        return [await shown.why(key) for key in keys]


def test_devices_show_their_shares() -> None:
    rows = source().board.tables["devices"].rows
    device = rows["node-0000/t4-0"]
    assert isinstance(device, DeviceRow)
    assert (device.name, device.kind, device.state) == ("Tesla T4", "gpu", "unhealthy")
    assert [share.holder for share in device.shares] == ["default/infer-00000"]
    assert device.requested_bytes == 2 << 30
    assert device.measured is None


def test_each_waiting_pod_gets_its_reasons_and_the_smallest_change() -> None:
    shown = source()
    huge, fits, running, none = asyncio.run(
        decided(shown, "vision/huge", "vision/fits", "default/infer-00000", "vision/nothing")
    )
    assert huge is not None
    assert fits is not None
    assert running is not None
    assert none is None
    assert not huge.fits
    assert huge.reasons[0].count == 39
    assert huge.reasons[0].of == 48
    assert huge.reasons[0].filter == "accelerator-memory"
    assert huge.reasons[0].example is not None
    assert "need 200 GiB" in huge.reasons[0].text
    assert [change.smallest for change in huge.changes][:1] == [True]
    assert fits.fits
    assert running.state == "running"
    row = shown.board.tables["workloads"].rows["vision/huge"]
    assert isinstance(row, WorkloadRow)
    assert row.why == huge.summary
