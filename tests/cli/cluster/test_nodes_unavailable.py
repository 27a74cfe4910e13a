"""`fairlead nodes -w` with an unavailable cluster: it reports the loss, retries, and reports the return."""

import asyncio
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from fairlead.cluster.kinds import NODES
from fairlead.compat.aio import timeout
from tests.labs import LABEL, RealCluster

RUN = (sys.executable, "-c", "from fairlead.cli.main import run; run()")
PLAIN = {
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": ""}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}
PATIENCE = 60.0
"""Seconds until a test that waits for a line fails; no time is measured."""


class Relay:
    """A proxy of an API server that can be shut and opened."""

    def __init__(self, socket: socket.socket, server: str) -> None:
        self._socket = socket
        self._server = urlsplit(server)
        self._writers: set[asyncio.StreamWriter] = set()
        self._open = True
        self.url = f"{self._server.scheme}://127.0.0.1:{socket.getsockname()[1]}"

    async def listen(self) -> asyncio.Server:
        """Accept connections: until then the port is bound and refuses them."""
        return await asyncio.start_server(self._relay, sock=self._socket)

    def shut(self) -> None:
        """Abort every connection, and every later one."""
        self._open = False
        for writer in self._writers:
            writer.transport.abort()

    def open(self) -> None:
        """Accept connections again."""
        self._open = True

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pair = {writer}
        try:
            if not self._open:
                return
            self._writers.add(writer)
            hostname, port = self._server.hostname, self._server.port
            far_reader, far_writer = await asyncio.open_connection(hostname, port)
            pair.add(far_writer)
            self._writers |= pair
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        except ConnectionError:
            pass
        finally:  # also when the loop ends: a later test would report an open connection
            self._writers -= pair
            for each in pair:
                each.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    raise ConnectionError


def refusing_port() -> socket.socket:
    """Return a bound socket of loopback that refuses connections."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    return taken


@asynccontextmanager
async def run_watch(*words: str) -> AsyncIterator[Process]:
    """Run `nodes -w` while the block runs, then interrupt it as Ctrl-C does."""
    process = await asyncio.create_subprocess_exec(*RUN, "nodes", "-w", *words, stdout=PIPE, stderr=PIPE)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            await asyncio.wait_for(process.wait(), PATIENCE)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
    assert process.returncode == 130


async def next_line(stream: asyncio.StreamReader | None, expected: str) -> str:
    """Return the next line that contains a text."""
    assert stream is not None
    async with timeout(PATIENCE):
        while text := (await stream.readline()).decode():
            if expected in text:
                return text
    raise AssertionError(f"the program ended without {expected!r}")


def test_an_unavailable_cluster_is_reported_and_retried(tmp_path: Path) -> None:
    async def inside(url: str) -> None:
        document = {**PLAIN, "clusters": [{"name": "c", "cluster": {"server": url}}]}
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        async with run_watch("--kubeconfig", str(path)) as process:
            report = await next_line(process.stderr, "trying again until it answers")
            assert report.startswith(f"fairlead: nothing answers at {url}: ")

    with refusing_port() as port:
        asyncio.run(inside(f"http://127.0.0.1:{port.getsockname()[1]}"))


def test_every_loss_and_return_of_a_cluster_is_reported(real_cluster: RealCluster, tmp_path: Path) -> None:
    document = yaml.safe_load(real_cluster.api.kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    path = tmp_path / "kubeconfig"

    async def inside(port: socket.socket) -> None:
        relay = Relay(port, cluster["server"])
        cluster["server"] = relay.url
        path.write_text(yaml.safe_dump(document))
        only = f"{LABEL}={real_cluster.namespace}"
        async with (
            run_watch("--kubeconfig", str(path), "-l", only) as process,
            real_cluster.connect() as client,
        ):
            away, back = "trying again until it answers", f"fairlead: {relay.url} answers again\n"
            await next_line(process.stderr, away)
            async with await relay.listen():
                assert await next_line(process.stderr, "again") == back
                for name in ("first", "second"):
                    whole = f"{real_cluster.namespace}-{name}"
                    metadata = {"name": whole, "labels": {LABEL: real_cluster.namespace}}
                    await client.create(NODES, {"metadata": metadata})
                    assert (await next_line(process.stdout, whole)).startswith("added")
                    relay.shut()
                    await next_line(process.stderr, away)
                    relay.open()
                    assert await next_line(process.stderr, "again") == back
                relay.shut()  # a closing server waits for its connections

    with refusing_port() as port:
        asyncio.run(inside(port))
