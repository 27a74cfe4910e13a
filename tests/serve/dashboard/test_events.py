"""Streams of events: changes, resume, merged changes, bounds."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from fairlead.dashboard.answers import SourceInfo
from fairlead.dashboard.board import Board
from fairlead.dashboard.row_types import NodeRow, Row, WorkloadRow
from fairlead.dashboard.source import DashboardSource
from fairlead.dashboard.viewer import Viewer
from fairlead.serve.dashboard.access import OneToken
from fairlead.serve.dashboard.app import Limits
from tests.serve.dashboard.served import TOKEN, Events, Served, served

COMMANDS = {"nodes": "fairlead nodes", "workloads": "kubectl get pods"}


def source() -> DashboardSource:
    return DashboardSource(Board(COMMANDS, lambda: 1000.0, 3), SourceInfo(kind="machine", name="m"))


def node(key: str, cpu: int = 1) -> NodeRow:
    return NodeRow(key=key, name=key, state="ready", cpu_milli=cpu, memory_bytes=0)


def pod(namespace: str, name: str) -> WorkloadRow:
    return WorkloadRow(key=f"{namespace}/{name}", kind="pod", namespace=namespace, name=name, state="running")


def put(board: Board, rows: dict[str, list[Row]]) -> None:
    for table, each in rows.items():
        board.apply(table, each)


@pytest.fixture
def server() -> Iterator[Served]:
    with served(source(), limits=Limits(streams=3, streams_each=2)) as running:
        yield running


def board(server: Served) -> Board:
    return server.dashboard.source.board


def test_change_arrives_with_its_revision(server: Served) -> None:
    with closing(Events(server)) as events:
        name, _, hello = events.next()
        assert name == "hello"
        server.do(board(server).apply, "nodes", [node("a")])
        name, number, data = events.next()
        assert (name, data["table"], data["put"][0]["key"], data["total"]) == ("change", "nodes", "a", 1)
        assert int(number) == data["revision"] > hello["revision"]


def test_reader_resumes_after_its_last_event(server: Served) -> None:
    server.do(board(server).apply, "nodes", [node("a"), node("b")])
    last = str(board(server).revision)
    server.do(board(server).apply, "nodes", [node("a", 2)])
    server.do(board(server).apply, "nodes", [node("a", 3)])
    server.do(board(server).apply, "nodes", (), ["b"])
    with closing(Events(server, last=last)) as events:
        assert events.next()[0] == "hello"
        name, _, data = events.next()
        assert name == "change"
        assert [(row["key"], row["cpu_milli"]) for row in data["put"]] == [("a", 3)]
        assert data["drop"] == ["b"]


def test_reader_of_another_server_reads_its_tables_again(server: Served) -> None:
    for last in ("5", "99999999999999999"):
        with closing(Events(server, "?tables=nodes", last)) as events:
            assert events.next()[0] == "hello"
            name, _, data = events.next()
            assert (name, data) == ("reset", {"table": "nodes"})


def test_reader_from_before_the_remembered_drops_reads_again(server: Served) -> None:
    server.do(board(server).apply, "nodes", [node(name) for name in "abcde"])
    last = str(board(server).revision)
    for name in "abcd":
        server.do(board(server).apply, "nodes", (), [name])
    with closing(Events(server, "?tables=nodes", last)) as events:
        assert [events.next()[0], events.next()[0]] == ["hello", "reset"]


def test_changes_of_two_tables_resume_as_one(server: Served) -> None:
    """A reader that got the first of two events of one moment gets the second after it resumes."""
    with closing(Events(server)) as events:
        events.next()
        server.do(put, board(server), {"nodes": [node("a")], "workloads": [pod("s", "p")]})
        first = events.next()
        assert first[2]["table"] == "nodes"
    with closing(Events(server, last=first[1])) as events:
        events.next()
        tables = {events.next()[2]["table"]}
        tables.add(events.next()[2]["table"])
        assert tables == {"nodes", "workloads"}


def test_stale_source_is_announced_and_healed(server: Served) -> None:
    with closing(Events(server)) as events:
        events.next()
        server.do(board(server).set_stale, "prometheus", "it does not answer", ["nodes"])
        assert events.next()[2] == {"source": "prometheus", "since": 1000.0, "reason": "it does not answer"}
        assert server.get("/api/v1/tables/nodes").json["stale"]["since"] == 1000.0
        server.do(board(server).heal, "prometheus")
        name, _, data = events.next()
        assert (name, data["source"], data["since"]) == ("stale", "prometheus", None)
        assert server.get("/api/v1/about").json["stale"] == []


def test_streams_are_bounded_and_return(server: Served) -> None:
    first, second = Events(server), Events(server)
    assert [first.next()[0], second.next()[0]] == ["hello", "hello"]
    refused = server.get("/api/v1/events")
    assert (refused.status, "retry-after" in refused.headers) == (429, True)
    first.close()
    server.do(board(server).apply, "nodes", [node("a")])  # the server writes, and sees that nobody reads
    assert second.next()[0] == "change"
    while (again := Events(server)).answer.status == 429:
        again.close()
        server.do(board(server).apply, "nodes", [node("a", board(server).revision)])
    assert again.next()[0] == "hello"
    again.close()
    second.close()


def test_stream_of_a_viewer_of_one_namespace() -> None:
    access = OneToken(TOKEN, Viewer("ann", frozenset({"shop"}), nodes=False))
    with served(source(), access) as server, closing(Events(server)) as events:
        events.next()
        pods: list[Row] = [pod("bank", "vault"), pod("shop", "web")]
        server.do(put, board(server), {"workloads": pods, "nodes": [node("bank-1")]})
        name, _, data = events.next()
        assert (name, [row["key"] for row in data["put"]], data["total"]) == ("change", ["shop/web"], 1)
        server.do(board(server).apply, "workloads", (), ["bank/vault", "shop/web"])
        assert events.next()[2]["drop"] == ["shop/web"]
