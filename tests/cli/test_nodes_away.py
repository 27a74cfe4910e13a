"""`fairlead nodes -w` and an unavailable cluster: said at once, tried again, and said when it is back."""

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
"""Seconds until a test that waits for a line gives up; nothing is measured."""


class Relay:
    """A port before an API server that can be shut and opened."""

    def __init__(self, socket: socket.socket, server: str) -> None:
        self._socket = socket
        self._server = urlsplit(server)
        self._writers: set[asyncio.StreamWriter] = set()
        self._open = True
        self.url = f"{self._server.scheme}://127.0.0.1:{socket.getsockname()[1]}"

    async def listen(self) -> asyncio.Server:
        """Begin to take connections: before, the port is bound and refuses them."""
        return await asyncio.start_server(self._relay, sock=self._socket)

    def shut(self) -> None:
        """Break every connection, and those to come."""
        self._open = False
        for writer in self._writers:
            writer.transport.abort()

    def open(self) -> None:
        """Let connections through again."""
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
        finally:  # also where the loop ends: a connection that is left open is reported by a later test
            self._writers -= pair
            for each in pair:
                each.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    raise ConnectionError


def closed_port() -> socket.socket:
    """Return a port of loopback that is taken and refuses connections."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    return taken


@asynccontextmanager
async def watching(*words: str) -> AsyncIterator[Process]:
    """Run `nodes -w` for as long as the block lasts, then end it as a person does."""
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


async def line(stream: asyncio.StreamReader | None, holding: str) -> str:
    """Return the next line that holds a text."""
    assert stream is not None
    async with timeout(PATIENCE):
        while text := (await stream.readline()).decode():
            if holding in text:
                return text
    raise AssertionError(f"the program ended without {holding!r}")


def test_a_cluster_that_is_away_is_said_and_tried_again(tmp_path: Path) -> None:
    async def inside(url: str) -> None:
        document = {**PLAIN, "clusters": [{"name": "c", "cluster": {"server": url}}]}
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        async with watching("--kubeconfig", str(path)) as process:
            said = await line(process.stderr, "trying again until it answers")
            assert said.startswith(f"fairlead: nothing answers at {url}: ")

    with closed_port() as port:
        asyncio.run(inside(f"http://127.0.0.1:{port.getsockname()[1]}"))


def test_a_cluster_that_comes_and_goes_is_followed_and_each_is_said(
    real_cluster: RealCluster, tmp_path: Path
) -> None:
    document = yaml.safe_load(real_cluster.api.kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    path = tmp_path / "kubeconfig"

    async def inside(port: socket.socket) -> None:
        relay = Relay(port, cluster["server"])
        cluster["server"] = relay.url
        path.write_text(yaml.safe_dump(document))
        only = f"{LABEL}={real_cluster.namespace}"
        async with (
            watching("--kubeconfig", str(path), "-l", only) as process,
            real_cluster.connect() as client,
        ):
            away, back = "trying again until it answers", f"fairlead: {relay.url} answers again\n"
            await line(process.stderr, away)
            async with await relay.listen():
                assert await line(process.stderr, "again") == back
                for name in ("first", "second"):
                    whole = f"{real_cluster.namespace}-{name}"
                    metadata = {"name": whole, "labels": {LABEL: real_cluster.namespace}}
                    await client.create(NODES, {"metadata": metadata})
                    assert (await line(process.stdout, whole)).startswith("added")
                    relay.shut()
                    await line(process.stderr, away)
                    relay.open()
                    assert await line(process.stderr, "again") == back
                relay.shut()  # a server that closes waits for its connections

    with closed_port() as port:
        asyncio.run(inside(port))
