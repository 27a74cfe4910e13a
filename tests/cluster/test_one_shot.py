"""The transport for two or three requests: fast on success, and as careful as the full one otherwise."""

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


def run_with_one_shot(
    answers: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    scenario: Scenario,
    adapt_config: Callable[[ClusterConfig], ClusterConfig] = lambda config: config,
) -> None:
    async def run() -> None:
        async with serve_responses(answers) as seen, Client.connect_once(adapt_config(seen.config)) as client:
            await scenario(client, seen)

    asyncio.run(run())


def test_requests_carry_credentials_and_share_a_connection() -> None:
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
    joe = Impersonation("joe", groups=("one", "two"))
    run_with_one_shot(
        answer, scenario, lambda config: replace(config, login=AuthInfo(token="secret"), impersonate=joe)
    )
    assert groups == [["one", "two"]] * 3
    assert len(peers) == 1


def test_an_error_status_raises_the_same_error() -> None:
    async def scenario(client: Client, seen: RecordedRequests) -> None:
        with pytest.raises(NotFoundError, match="web"):
            await client.get(PODS, "web", "x")
        assert len(seen.requests) == 2  # the full transport sends the second, and reads its error

    run_with_one_shot(
        always(lambda: status(404, "NotFound", 'pods "web" not found', name="web", kind="pods")), scenario
    )


def test_a_busy_server_gets_a_retry() -> None:
    def busy() -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "0"})

    async def scenario(client: Client, seen: RecordedRequests) -> None:
        assert (await client.get(PODS, "web", "x")).metadata.name == "web"
        assert len(seen.requests) >= 3

    run_with_one_shot(in_order(busy, busy, lambda: web.json_response(pod("web"))), scenario)


def test_a_broken_response_is_requested_again() -> None:
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


def test_a_silent_server_times_out_soon() -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        times.append(1)
        if len(times) == 1:
            await asyncio.sleep(30)
        return web.json_response(pod("web"))

    async def run() -> None:
        async with (
            serve_responses(answer) as seen,
            OneShotTransport.open(seen.config, read_timeout=0.2) as transport,
        ):
            assert (await Client(transport).get(PODS, "web", "x")).metadata.name == "web"

    times: list[int] = []
    asyncio.run(run())
    assert len(times) == 2


def test_concurrent_requests_and_writes_use_the_full_transport() -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.json_response(pod(request.path.rpartition("/")[2]))

    async def scenario(client: Client, seen: RecordedRequests) -> None:
        pods = await asyncio.gather(*(client.get(PODS, f"web-{number}", "x") for number in range(9)))
        assert [item.metadata.name for item in pods] == [f"web-{number}" for number in range(9)]
        await client.delete(PODS, "web-1", "x")
        assert seen.requests.count("DELETE /api/v1/namespaces/x/pods/web-1") == 1

    run_with_one_shot(answer, scenario)


def test_a_refused_connection_raises_the_same_error() -> None:
    async def run() -> None:
        async with Client.connect_once(
            ClusterConfig(server="http://127.0.0.1:1", source="the test")
        ) as client:
            await client.get(PODS, "web", "x")

    with pytest.raises(ClusterUnavailableError, match="nothing answers at http://127"):
        asyncio.run(run())


def test_an_untrusted_server_gets_no_request(tmp_path: Path) -> None:
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


def test_a_proxy_uses_the_full_transport() -> None:
    async def scenario(client: Client, seen: RecordedRequests) -> None:
        assert (await client.get(PODS, "web", "x")).metadata.name == "web"
        assert len(seen.requests) == 1

    run_with_one_shot(
        always(lambda: web.json_response(pod("web"))),
        scenario,
        lambda config: replace(config, server="http://far.example:8080", proxy=config.server),
    )


def test_no_heavy_module_is_loaded() -> None:
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
