"""Bounds of the server: bodies, connections, heads that never end, and requests that nobody expects."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.catalog import load
from fairlead.dashboard.answers import CancelAction
from fairlead.dashboard.row_types import ApiAnswer
from fairlead.dashboard.sources.snapshot import SnapshotSource
from fairlead.dashboard.viewer import Viewer
from fairlead.errors import AccessError, ClusterUnavailableError, ConflictError, FairleadError
from fairlead.serve.dashboard import connections
from fairlead.serve.dashboard.access import OneToken
from fairlead.serve.dashboard.app import Limits
from tests.dashboard.samples import cluster
from tests.serve.dashboard.served import TOKEN, Answered, Served, served

JSON = {"Content_Type": "application/json"}


class ActingSource(SnapshotSource):
    """A snapshot whose pods can be cancelled, or not."""

    def __init__(self) -> None:
        super().__init__(cluster(4, 8), "cluster.json", load(), lambda: 1e9)
        self.asked: list[tuple[ApiAnswer, str]] = []
        self.error: FairleadError | None = None

    async def act(self, action: ApiAnswer, token: str) -> str | None:
        self.asked.append((action, token))
        if self.error is not None:
            raise self.error
        return "done"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    access = OneToken(TOKEN, Viewer("ann", actions=("cancel",)))
    with served(ActingSource(), access, Limits(streams=8, streams_each=8)) as running:
        yield running


@pytest.fixture
def source(server: Served) -> ActingSource:
    found = server.dashboard.source
    assert isinstance(found, ActingSource)
    found.asked.clear()
    found.error = None
    return found


def post(server: Served, body: bytes, action: str = "cancel", **headers: str) -> Answered:
    return server.get(f"/api/v1/actions/{action}", "POST", body, **{**JSON, **headers})


def test_action_reaches_the_source_with_the_token(server: Served, source: ActingSource) -> None:
    answer = post(server, b'{"workload": "vision/huge"}')
    assert (answer.status, answer.json) == (200, {"done": "done"})
    assert source.asked == [(CancelAction(workload="vision/huge"), TOKEN)]


@pytest.mark.parametrize(
    ("body", "action", "headers", "status"),
    [
        (b"{", "cancel", {}, 400),
        (b"[]", "cancel", {}, 400),
        (b"{}", "cancel", {}, 400),
        (b'{"workload": 7}', "cancel", {}, 400),
        (b'{"workload": "vision/huge", "more": 1}', "cancel", {}, 400),
        (b"\xff\xfe", "cancel", {}, 400),
        (b'{"workload": "vision/huge"}', "cancel", {"Content_Type": "text/plain"}, 400),
        (b'{"workload": "' + b"x" * 70_000 + b'"}', "cancel", {}, 413),
        (b'{"workload": "vision/nothing"}', "cancel", {}, 404),
        (b'{"node": "node-0000"}', "drain", {}, 403),
        (b'{"proposal": "x"}', "rightsize", {}, 403),
        (b"{}", "reboot", {}, 404),
        (b'{"workload": "vision/huge"}', "cancel", {"token": ""}, 401),
        (b'{"workload": "vision/huge"}', "cancel", {"Origin": "http://evil.example"}, 403),
    ],
)
def test_wrong_actions_do_nothing(
    server: Served, source: ActingSource, body: bytes, action: str, headers: dict[str, str], status: int
) -> None:
    answer = post(server, body, action, **headers)
    assert answer.status == status
    assert set(answer.json["error"]) == {"what", "where", "next"}
    assert source.asked == []


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (AccessError("forbidden"), 403),
        (ConflictError("changed since"), 409),
        (ClusterUnavailableError("refused"), 503),
    ],
)
def test_refusals_of_the_cluster_are_answers(
    server: Served, source: ActingSource, error: FairleadError, status: int
) -> None:
    source.error = error
    answer = post(server, b'{"workload": "vision/huge"}')
    assert (answer.status, answer.json["error"]["what"]) == (status, str(error))


def test_body_without_a_length_is_bounded_too(server: Served) -> None:
    with closing(server.connect()) as connection:
        parts = (b"x" * 8192 for _ in range(12))
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        connection.request("POST", "/api/v1/actions/cancel", parts, headers, encode_chunked=True)
        assert connection.getresponse().status == 413


def test_large_head_is_refused(server: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 20) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000)
        assert client.recv(12) in (b"HTTP/1.1 400", b"")


def test_a_thousand_idle_streams_are_bounded(server: Served) -> None:
    """Most are refused, and an answer is still given while they are open."""
    request = (
        f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    )
    clients: list[socket.socket] = []
    try:
        for _ in range(1000):
            client = socket.create_connection(("127.0.0.1", server.port), 20)
            client.sendall(request)
            clients.append(client)
        assert server.get("/api/v1/about").status == 200
        codes = [_code(client) for client in clients]
        assert codes.count(b"200") == 8
        assert set(codes) <= {b"200", b"429", b""}, "an empty one was closed to make room"
    finally:
        for client in clients:
            client.close()


def _code(client: socket.socket) -> bytes:
    try:
        return client.recv(12)[9:]
    except ConnectionError:
        return b""


def test_idle_connections_make_room(server: Served) -> None:
    clients = [socket.create_connection(("127.0.0.1", server.port), 20) for _ in range(connections.MOST + 20)]
    try:
        assert server.get("/api/v1/about").status == 200
    finally:
        for client in clients:
            client.close()


METHODS = st.sampled_from(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"])
PATHS = st.sampled_from(
    [
        "about",
        "tables/nodes",
        "tables/",
        "events",
        "workloads/",
        "pipelines/",
        "devices/",
        "actions/cancel",
        "models/",
    ]
)
WORDS = st.text(st.sampled_from("abc/%20.?&=~:\\\"'<>{}[]|^`0129limitafterkeywhy"), max_size=30)
HEADERS = st.dictionaries(
    st.sampled_from(["Last-Event-ID", "Accept", "Content-Type", "Content-Length", "Range", "If-None-Match"]),
    st.text(st.characters(min_codepoint=33, max_codepoint=255), max_size=20),
    max_size=3,
)


@settings(max_examples=150, deadline=None)
@given(METHODS, PATHS, WORDS, HEADERS, st.binary(max_size=60))
def test_no_request_makes_the_server_fail(
    server: Served, method: str, path: str, rest: str, headers: dict[str, str], body: bytes
) -> None:
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    target = f"/api/v1/{path}{rest}".replace(" ", "+")
    text = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    text += f"Authorization: Bearer {TOKEN}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 20) as client:
        client.sendall(text.encode() + head.encode("latin-1") + b"\r\n" + body)
        client.shutdown(socket.SHUT_WR)
        line = client.recv(4096).partition(b"\r\n")[0]
    assert not line or line.split(b" ")[1][:1] in (b"2", b"4"), line


def test_answers_are_json_of_the_contract(server: Served) -> None:
    page = server.get("/api/v1/tables/devices?limit=1").body
    assert set(json.loads(page)) == {"table", "revision", "total", "next", "rows", "command", "stale"}
