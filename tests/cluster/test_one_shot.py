"""A client for two or three questions: quick where all goes well, and as thorough as the other where not."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from fairlead.cluster.client import Client
from fairlead.cluster.config.types import AuthInfo, ClusterConfig, Impersonation
from fairlead.cluster.http.one_shot import OneShotTransport
from fairlead.cluster.kinds import PODS
from fairlead.errors import ClusterUnavailableError, NotFoundError
from tests.cluster.loopback import (
    Authority,
    RecordedRequests,
    always,
    in_order,
    pod,
    serve_bytes,
    serve_responses,
    status,
)

Scenario = Callable[[Client, RecordedRequests], Awaitable[None]]


def played(
    answers: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    scenario: Scenario,
    settle: Callable[[ClusterConfig], ClusterConfig] = lambda config: config,
) -> None:
    async def run() -> None:
        async with serve_responses(answers) as seen, Client.connect_once(settle(seen.config)) as client:
            await scenario(client, seen)

    asyncio.run(run())


def test_questions_carry_who_asks_and_share_a_connection() -> None:
    peers = set()

    async def answer(request: web.BaseRequest) -> web.Response:
        peers.add(request.transport.get_extra_info("peername") if request.transport else None)
        groups.append(request.headers.getall("Impersonate-Group"))
        return web.json_response(pod("web"))

    async def scenario(client: Client, seen: RecordedRequests) -> None:
        for _ in range(3):
            assert (await client.get(PODS, "web", "x")).metadata.uid == "uid-web"
        assert seen.requests == ["GET /api/v1/namespaces/x/pods/web"] * 3
        assert seen.headers[0]["Authorization"] == "Bearer secret"
        assert seen.headers[0]["Impersonate-User"] == "joe"
        assert seen.headers[0]["Accept"] == "application/json"

    groups: list[list[str]] = []
    who = Impersonation("joe", groups=("one", "two"))
    played(answer, scenario, lambda config: replace(config, login=AuthInfo(token="secret"), impersonate=who))
    assert groups == [["one", "two"]] * 3
    assert len(peers) == 1


def test_a_no_is_told_as_ever() -> None:
    async def scenario(client: Client, seen: RecordedRequests) -> None:
        with pytest.raises(NotFoundError, match="web"):
            await client.get(PODS, "web", "x")
        assert len(seen.requests) == 2  # the second is the one that understands a no

    played(always(lambda: status(404, "NotFound", 'pods "web" not found', name="web", kind="pods")), scenario)


def test_a_server_that_is_busy_is_asked_again() -> None:
    def busy() -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "0"})

    async def scenario(client: Client, seen: RecordedRequests) -> None:
        assert (await client.get(PODS, "web", "x")).metadata.name == "web"
        assert len(seen.requests) >= 3

    played(in_order(busy, busy, lambda: web.json_response(pod("web"))), scenario)


def test_a_line_that_breaks_is_mended() -> None:
    async def talk(_: bytes, writer: asyncio.StreamWriter) -> None:
        times.append(1)
        body = b'{"metadata": {"name": "web", "namespace": "x"}}'
        size = len(body) + (9 if len(times) == 1 else 0)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (size, body))
        await writer.drain()

    async def run() -> None:
        async with serve_bytes(talk) as seen, Client.connect_once(seen.config) as client:
            assert (await client.get(PODS, "web", "x")).metadata.name == "web"

    times: list[int] = []
    asyncio.run(run())
    assert len(times) == 2


def test_a_server_that_says_nothing_is_given_up_soon() -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        times.append(1)
        if len(times) == 1:
            await asyncio.sleep(30)
        return web.json_response(pod("web"))

    async def run() -> None:
        async with (
            serve_responses(answer) as seen,
            OneShotTransport.open(seen.config, read_timeout=0.2) as line,
        ):
            assert (await Client(line).get(PODS, "web", "x")).metadata.name == "web"

    times: list[int] = []
    asyncio.run(run())
    assert len(times) == 2


def test_several_questions_at_once_and_writes_are_the_transport_s() -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.json_response(pod(request.path.rpartition("/")[2]))

    async def scenario(client: Client, seen: RecordedRequests) -> None:
        found = await asyncio.gather(*(client.get(PODS, f"web-{number}", "x") for number in range(9)))
        assert [each.metadata.name for each in found] == [f"web-{number}" for number in range(9)]
        await client.delete(PODS, "web-1", "x")
        assert seen.requests.count("DELETE /api/v1/namespaces/x/pods/web-1") == 1

    played(answer, scenario)


def test_nobody_there_is_told_as_ever() -> None:
    async def run() -> None:
        async with Client.connect_once(
            ClusterConfig(server="http://127.0.0.1:1", source="the test")
        ) as client:
            await client.get(PODS, "web", "x")

    with pytest.raises(ClusterUnavailableError, match="nothing answers at http://127"):
        asyncio.run(run())


def test_who_cannot_be_trusted_is_told_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        stranger = Authority("stranger").server(tmp_path)
        async with (
            serve_responses(always(lambda: web.json_response(pod("web"))), stranger) as seen,
            Client.connect_once(replace(seen.config, ca=Authority("ours").pem)) as client,
        ):
            with pytest.raises(ClusterUnavailableError, match="is not trusted"):
                await client.get(PODS, "web", "x")
            assert not seen.requests

    asyncio.run(run())


def test_a_proxy_on_the_way_is_the_transport_s() -> None:
    async def scenario(client: Client, seen: RecordedRequests) -> None:
        assert (await client.get(PODS, "web", "x")).metadata.name == "web"
        assert len(seen.requests) == 1

    played(
        always(lambda: web.json_response(pod("web"))),
        scenario,
        lambda config: replace(config, server="http://far.example:8080", proxy=config.server),
    )


def test_nothing_heavy_is_loaded() -> None:
    code = (
        "import sys, asyncio\nfrom fairlead.cluster.client import Client\n"
        "from fairlead.cluster.config.types import ClusterConfig\n"
        "async def run():\n"
        "    async with Client.connect_once(ClusterConfig('http://127.0.0.1:1')):\n        pass\n"
        "asyncio.run(run())\nprint(*sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "fairlead.cluster.http.one_shot" in loaded
    assert not loaded & {"aiohttp", "fairlead.cluster.http.transport", "fairlead.catalog", "numpy"}
