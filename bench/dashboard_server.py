"""The server of bench/dashboard.py: a large cluster of which fifty rows change each second."""

import argparse
import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fairlead.catalog import load
from fairlead.dashboard.row_types import DeviceRow, WorkloadRow
from fairlead.dashboard.sources.snapshot import SnapshotSource
from fairlead.dashboard.viewer import Viewer
from fairlead.serve.dashboard.access import OneToken
from fairlead.serve.dashboard.app import Dashboard
from fairlead.serve.dashboard.program import ServeOptions, run
from fairlead.settings import Address
from tests.dashboard.samples import cluster

if TYPE_CHECKING:
    from asyncio import Future

TICK = 0.02
"""Seconds between two changes."""


class ChangingSource(SnapshotSource):
    """A snapshot of which one row changes at a time: measured values, and whether a pod waits."""

    @asynccontextmanager
    async def running(self) -> "AsyncIterator[Future[None]]":
        """Change rows as long as the context lasts."""
        async with super().running() as ended:
            task = asyncio.create_task(self._change())
            try:
                yield ended
            finally:
                task.cancel()

    async def _change(self) -> None:
        draw = random.Random(7)
        devices = list(self.board.tables["devices"].rows)
        pods = list(self.board.tables["workloads"].rows)
        following = time.monotonic()
        while True:
            following += TICK
            await asyncio.sleep(max(0.0, following - time.monotonic()))
            if draw.random() < 0.7:
                row = self.board.tables["devices"].rows[draw.choice(devices)]
                assert isinstance(row, DeviceRow)
                fresh = replace(row, utilisation=round(draw.random(), 3), measured=time.time())
                self.board.apply("devices", [fresh])
            else:
                pod = self.board.tables["workloads"].rows[draw.choice(pods)]
                assert isinstance(pod, WorkloadRow)
                state = "waiting" if pod.state == "running" else "running"
                self.board.apply("workloads", [replace(pod, state=state, since=time.time())])


def main() -> None:
    """Serve until a signal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--token", required=True)
    options = parser.parse_args()
    source = ChangingSource(cluster(options.nodes, options.pods), "cluster.json", load(), time.time)
    access = OneToken(options.token, Viewer("bench"))
    where = ServeOptions(Address("127.0.0.1", 0))
    run(lambda: Dashboard(source, access), where, lambda address: print(address, flush=True))


if __name__ == "__main__":
    main()
