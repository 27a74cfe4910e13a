"""The dashboard's server under load: 8,000 accelerators, 10,000 pods, 50 changes a second, five readers.

    python -m bench.dashboard_load            # the limits of the server: memory and one core
    python -m bench.dashboard_load --short    # ten seconds instead of a minute

The server is a process of its own. It is fed with objects as watches deliver them, through the same tables as
a live cluster: pods end, start and wait, and every accelerator is measured each ten seconds. Five readers
follow the streams.
"""

import argparse
import asyncio
import http.client
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.cache import types as cached
from fairlead.cache.types import LivePod
from fairlead.catalog import load
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.dashboard.answers import SourceInfo
from fairlead.dashboard.board import Board
from fairlead.dashboard.source import DashboardSource
from fairlead.dashboard.sources.cluster.tables import ClusterTables
from fairlead.dashboard.viewer import Viewer
from fairlead.keys import PLACEMENT
from fairlead.placement import PLACEMENTS
from fairlead.serve.dashboard.access import OneToken
from fairlead.serve.dashboard.app import Dashboard
from fairlead.serve.dashboard.program import ServeOptions, run
from fairlead.settings import Address
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from fairlead.use import DeviceKey, UseReport, UseSample

NODES: Final = 2000
DEVICES: Final = 4
PODS: Final = 10_000
RATE: Final = 50
READERS: Final = 5
USE_PERIOD: Final = 10.0
TOKEN: Final = "bench-token-of-the-dashboard"
MOST_MEMORY: Final = 300 << 20
MOST_CORE: Final = 0.30
LATEST: Final = 2.0
COMMANDS: Final = dict.fromkeys(("nodes", "devices", "workloads"), "kubectl get")
_VERSIONS = count(1)


def _object(kind: Any, document: dict[str, Any]) -> Any:
    document["metadata"]["resourceVersion"] = str(next(_VERSIONS))
    return msgspec.json.decode(msgspec.json.encode(document), type=kind.type)


def make_node(number: int) -> Any:
    """Return a node."""
    name = f"node-{number:04}"
    meta = {"name": name, "uid": name, "labels": {"kubernetes.io/arch": "amd64", "zone": f"z{number % 7}"}}
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "fairlead.dev/gpu-mem": "91752"}
    conditions = [{"type": "Ready", "status": "True"}]
    return _object(
        cached.NODES, {"metadata": meta, "status": {"allocatable": amounts, "conditions": conditions}}
    )


def make_slice(number: int) -> Any:
    """Return the accelerators of a node."""
    name = f"node-{number:04}"
    listed = [
        {
            "name": f"gpu-{at}",
            "attributes": {"model": {"string": "l4"}, "vendor": {"string": "NVIDIA"}},
            "capacity": {"memory": {"value": "22Gi"}},
            "allowMultipleAllocations": True,
        }
        for at in range(DEVICES)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "fairlead.dev", "nodeName": name, "pool": pool, "devices": listed}
    return _object(cached.SLICES, {"metadata": {"name": f"{name}-s", "uid": f"s-{name}"}, "spec": spec})


def make_pod(number: int, generation: int) -> LivePod:
    """Return a pod; one in twenty waits."""
    waits = number % 20 == 7
    share = PLACEMENTS.encode((DeviceShare(f"gpu-{number % DEVICES}", Bytes(2 << 30)),))
    meta = {
        "name": f"infer-{number:05}",
        "namespace": f"team-{number % 40:02}",
        "uid": f"uid-{number}-{generation}",
        "labels": {"app": f"infer-{number % 200}"},
        "annotations": {} if waits else {PLACEMENT: share},
        "creationTimestamp": "2026-03-01T12:00:00Z",
    }
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"fairlead.dev/gpu-mem": "2048"}}
    container = {"name": "c", "image": "i", "resources": resources}
    node = {} if waits else {"nodeName": f"node-{number % NODES:04}"}
    message = f"0 of 8000 accelerators can take it: {generation} lack memory (need 200 GiB, most 22 GiB free)"
    condition = {
        "type": "PodScheduled",
        "status": "False" if waits else "True",
        "message": message if waits else "",
    }
    status = {"phase": "Pending" if waits else "Running", "conditions": [condition]}
    spec = {"schedulerName": "fairlead", "containers": [container], **node}
    pod: LivePod = _object(cached.PODS, {"metadata": meta, "spec": spec, "status": status})
    return pod


class LoadedSource(DashboardSource):
    """A cluster that changes all the time."""

    def __init__(self) -> None:
        super().__init__(Board(COMMANDS, time.time), SourceInfo(kind="cluster", name="bench"))
        self._tables = ClusterTables(self.board, load())
        self._pods = [make_pod(number, 0) for number in range(PODS)]
        for number in range(NODES):
            self._tables.on_event(ObjectChange(None, make_node(number)))
            self._tables.on_event(ObjectChange(None, make_slice(number)))
        for pod in self._pods:
            self._tables.on_event(ObjectChange(None, pod))
        self._tables.refresh()

    @asynccontextmanager
    async def running(self) -> "AsyncIterator[asyncio.Future[None]]":
        """Change pods, and measure accelerators."""
        tasks = [asyncio.create_task(self._change()), asyncio.create_task(self._measure())]
        try:
            yield asyncio.get_running_loop().create_future()
        finally:
            for task in tasks:
                task.cancel()

    async def _change(self) -> None:
        changed = 0
        began = time.monotonic()
        while True:
            due = int((time.monotonic() - began) * RATE)
            while changed < due:
                number = (changed * 7919) % PODS
                old, new = self._pods[number], make_pod(number, changed)
                self._pods[number] = new
                self._tables.on_event(ObjectChange(old, None))
                self._tables.on_event(ObjectChange(None, new))
                changed += 1
            self._tables.refresh()
            await asyncio.sleep(0.25)

    async def _measure(self) -> None:
        """Measure an eighth of all accelerators at a time, as agents answer."""
        for turn in count():
            at = time.time()
            samples = {
                DeviceKey(f"node-{number:04}", f"gpu-{device}"): UseSample(
                    at, Bytes((turn % 9 + 1) << 30), (turn % 10) / 10
                )
                for number in range(turn % 8, NODES, 8)
                for device in range(DEVICES)
            }
            self._tables.on_use(UseReport(at, "agents", samples))
            await asyncio.sleep(USE_PERIOD / 8)


class Reader(threading.Thread):
    """One browser: reads the tables, then follows the stream."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self.events = 0
        self.bytes = 0
        self.latest = 0.0
        """The longest time between two events."""

    def run(self) -> None:
        """Follow the stream until the process ends."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        for table in COMMANDS:
            after: str | None = ""
            while after is not None:
                connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
                query = f"&after={after.replace('/', '%2F')}" if after else ""
                connection.request("GET", f"/api/v1/tables/{table}?limit=500{query}", headers=headers)
                after = msgspec.json.decode(connection.getresponse().read())["next"]
                connection.close()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request("GET", "/api/v1/events", headers=headers)
        answer, last = connection.getresponse(), time.monotonic()
        while line := answer.readline():
            self.bytes += len(line)
            if line.startswith(b"event: change"):
                now = time.monotonic()
                self.events, self.latest, last = self.events + 1, max(self.latest, now - last), now


def used(pid: int) -> tuple[float, int, int]:
    """Return the processor time of a process, its memory and the most that it was, in seconds and bytes."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    status = dict(_lines(pid))
    return seconds, int(status["VmRSS"].split()[0]) << 10, int(status["VmHWM"].split()[0]) << 10


def _lines(pid: int) -> Iterator[tuple[str, str]]:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        yield name, value.strip()


def serve() -> None:
    """Be the server; print its port."""
    source = LoadedSource()
    options = ServeOptions(Address("127.0.0.1", 0))
    access = OneToken(TOKEN, Viewer("bench"))
    run(lambda: Dashboard(source, access), options, lambda address: print(address, flush=True))


def measure(seconds: float) -> int:
    """Run the server and its readers; return the exit code."""
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.dashboard_load", "--serve"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        began = time.monotonic()
        address = server.stdout.readline().strip()
        started = time.monotonic() - began
        port = int(address.rstrip("/").rpartition(":")[2])
        readers = [Reader(port) for _ in range(READERS)]
        for reader in readers:
            reader.start()
        while not all(reader.events for reader in readers):
            time.sleep(0.2)
        for reader in readers:
            reader.latest = 0.0
        before, at = used(server.pid), time.monotonic()
        events = [reader.events for reader in readers]
        time.sleep(seconds)
        after, elapsed = used(server.pid), time.monotonic() - at
        core = (after[0] - before[0]) / elapsed
        late = max(reader.latest for reader in readers)
        rate = sum(reader.events for reader in readers) - sum(events)
    finally:
        server.terminate()
        server.wait(20)
    print(f"{NODES} nodes, {NODES * DEVICES} accelerators, {PODS} pods; {RATE} changes/s, {READERS} readers")
    print(f"started in       {started:.1f} s")
    print(f"one core         {core:.1%} of it (limit {MOST_CORE:.0%})")
    print(
        f"memory           {after[1] >> 20} MiB, at most {after[2] >> 20} MiB (limit {MOST_MEMORY >> 20} MiB)"
    )
    print(f"events           {rate / elapsed / READERS:.1f}/s for each reader, at most {late:.2f} s apart")
    good = core <= MOST_CORE and after[2] <= MOST_MEMORY and late <= LATEST
    print("within the limits" if good else "NOT within the limits")
    return 0 if good else 1


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="ten seconds instead of a minute")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    return measure(10.0 if options.short else 60.0)


if __name__ == "__main__":
    raise SystemExit(main())
