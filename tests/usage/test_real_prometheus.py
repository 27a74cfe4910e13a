"""A real Prometheus that scrapes a page of the test: each exporter's names, then every way to fail."""

import asyncio
import io
import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from fairlead.cluster.http.fetch import FetchAccess, Fetcher
from fairlead.errors import LabError
from fairlead.lab.control.prometheus import binaries
from fairlead.lab.run import home
from fairlead.lab.run.steps import StepPrinter
from fairlead.series import Staleness
from fairlead.usage.history import UseHistory
from fairlead.usage.prometheus import PrometheusSource
from fairlead.usage.status import UseStatus
from fairlead.use import UseFault
from tests.labs import skip_without_lab
from tests.usage.worlds import FOREIGN, GPU, INDEX, MIB, OURS_BUSY, OURS_MEMORY, POD_MEMORY, UUID, WEB

pytestmark = pytest.mark.xdist_group("prometheus")
POD = 'namespace="shop",pod="web",container="main"'
OURS = (
    f'{OURS_MEMORY}{{id="{GPU.device}",node="box"}} {7 * MIB}\n'
    f'{OURS_BUSY}{{id="{GPU.device}",node="box"}} 0.25\n'
    f'{POD_MEMORY}{{id="{GPU.device}",node="box",{POD},pod_uid="uid-web"}} {5 * MIB}\n'
    f'{FOREIGN}{{id="{GPU.device}",node="box"}} {2 * MIB}\n'
)
DCGM = f'gpu="0",UUID="{UUID}",pci_bus_id="00000000:3B:00.0",device="nvidia0",modelName="T4"'
OLD = (
    f'DCGM_FI_DEV_FB_USED{{{DCGM},Hostname="box",{POD}}} 11\n'
    f'DCGM_FI_DEV_GPU_UTIL{{{DCGM},Hostname="box",{POD}}} 50\n'
)
NEW = (
    f'DCGM_FI_DEV_FB_USED_BYTES{{{DCGM},hostname="box",{POD}}} {13 * MIB}\n'
    f'DCGM_FI_DEV_GPU_UTIL_RATIO{{{DCGM},hostname="box",{POD}}} 0.75\n'
)


class Exporter(ThreadingHTTPServer):
    """Serves one text, which a test replaces."""

    daemon_threads = True
    text = ""


class _Handler(BaseHTTPRequestHandler):
    server: Exporter

    def do_GET(self) -> None:
        body = self.server.text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def exporter() -> Iterator[Exporter]:
    with Exporter(("127.0.0.1", 0), _Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def prometheus(folder: Path, target: int, port: int) -> Iterator[None]:
    """Run a Prometheus that scrapes one target four times a second; target labels hide the exposed ones."""
    try:
        program = binaries(StepPrinter(io.StringIO()))["prometheus"]
    except LabError as error:
        skip_without_lab(str(error).splitlines()[0])
    labels = {"namespace": "monitoring", "pod": "exporter-x"}
    job = {"job_name": "use", "static_configs": [{"targets": [f"127.0.0.1:{target}"], "labels": labels}]}
    times = {"scrape_interval": "250ms", "scrape_timeout": "250ms"}
    folder.mkdir()
    (folder / "config.yaml").write_text(json.dumps({"global": times, "scrape_configs": [job]}))
    arguments = [
        f"--config.file={folder / 'config.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with subprocess.Popen([program, *arguments], stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: ready(port))
            yield
        finally:
            process.kill()


def ready(port: int) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5) as response:
        return bool(response.status == 200)
    return False


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"the condition did not hold within {seconds:.0f} s"
        time.sleep(0.05)


class Reader:
    """What a scheduler does every few seconds."""

    def __init__(self, source: PrometheusSource) -> None:
        self.source = source
        self.history = UseHistory()

    async def refresh(self) -> UseStatus:
        now = time.time()
        self.history.on_report(await self.source.read(now))
        return self.history.status(now)

    async def until(self, condition: Callable[[UseStatus], object], seconds: float = 60.0) -> UseStatus:
        end = time.monotonic() + seconds
        while True:
            status = await self.refresh()
            if condition(status):
                return status
            assert time.monotonic() < end, status
            await asyncio.sleep(0.1)

    def memory(self) -> float | None:
        return self.history.device(GPU).memory.latest

    def reads(self, dialect: str) -> Callable[[UseStatus], bool]:
        def holds(status: UseStatus) -> bool:
            return self.source.dialect is not None and self.source.dialect.name == dialect

        return holds


async def read_every_dialect(reader: Reader, page: Exporter) -> None:
    page.text = OURS
    status = await reader.until(lambda status: status.staleness is Staleness.FRESH)
    assert (status.source, status.reason, status.devices_fresh, status.pods_fresh) == ("prometheus", "", 1, 1)
    use, pod = reader.history.device(GPU), reader.history.pod(WEB)
    assert (use.memory.latest, use.busy.latest, pod.memory.latest) == (7 * MIB, 0.25, 5 * MIB)
    assert reader.history.foreign(GPU, time.time()) == 2 * MIB
    page.text = OLD
    await reader.until(reader.reads("dcgm-exporter"))
    pod = reader.history.pod(WEB)
    assert (reader.memory(), pod.memory.latest, pod.busy.latest) == (11 * MIB, 11 * MIB, 0.5)
    page.text = NEW
    await reader.until(reader.reads("dcgm-exporter 4.9"))
    assert (reader.memory(), reader.history.pod(WEB).busy.latest) == (13 * MIB, 0.75)


async def fail_in_every_way(reader: Reader, page: Exporter) -> None:
    values = len(reader.history.device(GPU).memory)
    page.text = "nothing 1\n"
    status = await reader.until(lambda status: UseFault.LAGGING in status.faults)
    assert "check the targets of that job" in status.reason
    lagging = int((time.time() - 280) * 1000)
    page.text = "".join(
        f"{line} {lagging}\n" for line in OURS.replace('"box"', '"box",of="old"').splitlines()
    )
    status = await reader.until(lambda status: "is 28" in status.reason)
    assert OURS_MEMORY in status.reason
    page.text = f'{OURS_MEMORY}{{id="{GPU.device}",node="box",of="bad"}} NaN\n'
    await reader.until(lambda status: UseFault.NOT_A_NUMBER in status.faults)
    page.text = f'{OURS_MEMORY}{{id="x",node="stranger"}} 1\n'
    status = await reader.until(lambda status: "none of a known accelerator" in status.reason)
    assert "node 'stranger', device 'x'" in status.reason
    assert len(reader.history.device(GPU).memory) == values, "no sample of these was taken"


def test_every_state_of_a_real_prometheus_is_visible(tmp_path: Path) -> None:
    port = home.free_ports(["prometheus"], [])["prometheus"]

    async def run(page: Exporter) -> None:
        async with Fetcher.open(FetchAccess()) as fetcher:
            reader = Reader(PrometheusSource(fetcher, f"http://127.0.0.1:{port}", lambda: INDEX, 15.0))
            with prometheus(tmp_path / "first", page.server_address[1], port):
                await read_every_dialect(reader, page)
                await fail_in_every_way(reader, page)
            status = await reader.until(lambda status: UseFault.UNREACHABLE in status.faults)
            assert "check the address, and that the server runs" in status.reason
            status = await reader.refresh()
            assert f"nothing answers at http://127.0.0.1:{port}" in status.reason
            page.text = OURS
            with prometheus(tmp_path / "second", page.server_address[1], port):
                status = await reader.until(lambda status: not status.reason)
            assert (status.staleness, reader.memory()) == (Staleness.FRESH, 7 * MIB)

    with exporter() as page:
        asyncio.run(run(page))
