"""Broken connections, lost responses, and watches."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise

import pytest
from aiohttp import web

from fairlead import errors
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import CONFIG_MAPS, NODES, PODS
from fairlead.cluster.meta import Metadata
from fairlead.cluster.objects import ConfigMap
from fairlead.compat.aio import timeout
from tests.cluster.loopback import (
    STREAM,
    ByteHandler,
    RecordedRequests,
    chunk,
    in_order,
    pod,
    run_with_bytes,
    run_with_responses,
    serve_bytes,
)

# Broken connections


def cut_first(times: int, answer: bytes) -> ByteHandler:
    """Drop the first connections without a response, then answer."""
    left = [times]

    async def talk(_: bytes, writer: asyncio.StreamWriter) -> None:
        if left[0]:
            left[0] -= 1
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)
        await writer.drain()
        await asyncio.sleep(0.05)

    return talk


def test_a_read_is_retried_after_a_disconnect() -> None:
    async def scenario(client: Client, seen: RecordedRequests) -> None:
        assert (await client.get(PODS, "a", "x")).metadata.name == "a"
        assert len(seen.requests) == 3

    run_with_bytes(cut_first(2, json.dumps(pod("a")).encode()), scenario)


Write = Callable[[Client], Awaitable[object]]
WRITES: dict[str, Write] = {
    "create": lambda client: client.create(CONFIG_MAPS, ConfigMap(metadata=Metadata(name="a")), "x"),
    "update": lambda client: client.update(CONFIG_MAPS, ConfigMap(metadata=Metadata(name="a")), "x"),
    "patch": lambda client: client.patch(PODS, "a", {}, "x"),
    "delete": lambda client: client.delete(PODS, "a", "x"),
    "delete many": lambda client: client.delete_collection(PODS, "x"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_is_never_sent_twice(write: Write) -> None:
    async def scenario(client: Client, seen: RecordedRequests) -> None:
        with pytest.raises(errors.ClusterUnavailableError) as caught:
            await write(client)
        assert caught.value.maybe_done, "the server may have executed it"
        assert len(seen.requests) == 1

    run_with_bytes(cut_first(9, b""), scenario)


def test_an_unreachable_server() -> None:
    async def run() -> None:
        async with serve_bytes(cut_first(0, b"")) as seen:
            pass  # its port is closed now
        async with Client.connect(replace(seen.config, context="lab")) as client:
            with pytest.raises(errors.ClusterUnavailableError, match="nothing answers at http") as caught:
                await client.delete(NODES, "n")
            assert (caught.value.exit_code, caught.value.maybe_done) == (3, False)
            assert "context 'lab' of the test" in caught.value.hint
        unknown = replace(seen.config, server="https://no-such-host.invalid:6443")
        async with Client.connect(unknown) as client:
            with pytest.raises(errors.ClusterUnavailableError, match="no such host"):
                await client.version()

    asyncio.run(run())


# Binding


def test_the_body_of_a_successful_binding_is_not_read() -> None:
    async def scenario(client: Client, seen: RecordedRequests) -> None:
        await client.bind("x", "a", "uid-a", "n1")
        await client.bind("x", "a", "uid-a", "n1")
        assert seen.requests[0] == "POST /api/v1/namespaces/x/pods/a/binding"
        assert json.loads(seen.bodies[0])["metadata"]["uid"] == "uid-a"
        assert json.loads(seen.bodies[0])["target"]["name"] == "n1"

    junk = in_order(
        lambda: web.Response(status=201, text="<junk"),
        lambda: web.json_response({"kind": "Status", "code": 500, "status": "Failure"}, status=201),
    )
    run_with_responses(junk, scenario)


@pytest.mark.parametrize(
    ("node", "uid", "bound"),
    [("n1", "uid-a", True), ("n2", "uid-a", False), ("", "uid-a", False), ("n1", "uid-other", False)],
)
def test_the_pod_is_read_after_a_lost_response(node: str, uid: str, bound: bool) -> None:
    body = json.dumps(pod("a", nodeName=node)).encode()

    async def scenario(client: Client, seen: RecordedRequests) -> None:
        if bound:
            await client.bind("x", "a", uid, "n1")
        else:
            with pytest.raises(errors.ClusterUnavailableError) as caught:
                await client.bind("x", "a", uid, "n1")
            assert caught.value.maybe_done
        assert [line.split()[0] for line in seen.requests] == ["POST", "GET"]

    run_with_bytes(cut_first(1, body), scenario)


# Watches


def event(kind: str, name: str, size: int = 0) -> bytes:
    thing = {"metadata": {"name": name, "annotations": {"fill": "x" * size}}}
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


def in_chunks(*chunks: bytes, end: bool = True) -> ByteHandler:
    async def talk(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM)
        for part in chunks:
            writer.write(chunk(part))
            await writer.drain()
        if end:
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.1)

    return talk


async def names(client: Client, into: list[str]) -> None:
    async for seen in client.watch(PODS, "x", resource_version="7", timeout=300):
        into.append(seen.object.metadata.name)


def test_a_watch_reads_events_across_chunks() -> None:
    big = event("ADDED", "big", 1_500_000)
    stream = event("ADDED", "a") + big + event("MODIFIED", "b") + b"\n" + event("DELETED", "c")
    cuts = [0, 1, 20, 70, 100, 65_636, 900_000, len(stream) - 10, len(stream)]

    async def scenario(client: Client, seen: RecordedRequests) -> None:
        pod_names: list[str] = []
        await names(client, pod_names)
        assert pod_names == ["a", "big", "b", "c"]
        assert seen.requests == [
            "GET /api/v1/namespaces/x/pods?watch=true&resourceVersion=7&allowWatchBookmarks=true"
            "&timeoutSeconds=300"
        ]

    run_with_bytes(in_chunks(*(stream[a:b] for a, b in pairwise(cuts))), scenario)


@pytest.mark.parametrize("end", [True, False])
def test_a_disconnected_watch_raises(end: bool) -> None:
    async def scenario(client: Client, seen: RecordedRequests) -> None:
        pod_names: list[str] = []
        with pytest.raises(errors.ClusterUnavailableError, match="watch pods"):
            await names(client, pod_names)
        assert pod_names == ["a"], "complete events are not lost"

    run_with_bytes(in_chunks(event("ADDED", "a"), event("ADDED", "b")[:30], end=end), scenario)


ENDS: list[tuple[dict[str, object], type[errors.ClusterError]]] = [
    ({"code": 410, "reason": "Expired", "message": "too old resource version: 1 (9)"}, errors.GoneError),
    ({"code": 500, "reason": "InternalError"}, errors.ClusterUnavailableError),
    ({"code": 403, "reason": "Forbidden"}, errors.AccessError),
]


@pytest.mark.parametrize(("end", "kind"), ENDS)
def test_a_watch_that_the_server_ends(end: dict[str, object], kind: type[errors.ClusterError]) -> None:
    last = json.dumps({"type": "ERROR", "object": {"kind": "Status", "status": "Failure", **end}}).encode()

    async def scenario(client: Client, seen: RecordedRequests) -> None:
        with pytest.raises(errors.ClusterError) as caught:
            await names(client, [])
        assert type(caught.value) is kind

    run_with_bytes(in_chunks(last + b"\n"), scenario)


def test_an_idle_watch_times_out() -> None:
    async def talk(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + chunk(event("ADDED", "a")))
        await asyncio.sleep(30)

    async def scenario(client: Client, seen: RecordedRequests) -> None:
        watch = client.watch(PODS, idle=0.2)
        assert (await anext(watch)).object.metadata.name == "a"
        async with timeout(5):
            with pytest.raises(errors.ClusterUnavailableError, match="did not answer in time"):
                await anext(watch)

    run_with_bytes(talk, scenario)


def test_a_server_that_accepts_a_request_and_sends_nothing() -> None:
    async def talk(_: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    async def scenario(client: Client, seen: RecordedRequests) -> None:
        async with timeout(5):
            with pytest.raises(errors.ClusterUnavailableError, match="did not answer in time"):
                await anext(client.watch(PODS, idle=0.2))
        assert len(seen.requests) == 1, "a timeout is not retried"

    run_with_bytes(talk, scenario)


def test_a_watch_can_be_closed() -> None:
    left = asyncio.Event()

    async def talk(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM)
        try:
            while True:
                writer.write(chunk(event("ADDED", "a")))
                await writer.drain()
                await asyncio.sleep(0.01)
        finally:
            left.set()

    async def scenario(client: Client, seen: RecordedRequests) -> None:
        async with aclosing(client.watch(PODS)) as events:
            async for _ in events:
                break
        async with timeout(5):
            await left.wait()

    run_with_bytes(talk, scenario)
