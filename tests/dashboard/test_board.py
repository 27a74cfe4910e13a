"""The board: what a reader at any revision gets."""

import asyncio

from fairlead.dashboard.board import Board
from fairlead.dashboard.row_types import NodeRow, Row

COMMANDS = {"nodes": "fairlead nodes", "devices": "fairlead devices"}


def row(key: str, cpu: int = 1) -> NodeRow:
    return NodeRow(key=key, name=key, state="ready", cpu_milli=cpu, memory_bytes=0)


def board(most_drops: int = 100) -> Board:
    return Board(COMMANDS, lambda: 1000.0, most_drops)


def keys(rows: tuple[Row, ...]) -> list[str]:
    return [each.key for each in rows]


def test_reader_gets_each_changed_row_once_in_its_last_state() -> None:
    nodes = board()
    nodes.apply("nodes", [row("a"), row("b")])
    start = nodes.revision
    nodes.apply("nodes", [row("a", 2)])
    nodes.apply("nodes", [row("a", 3), row("c")])
    nodes.apply("nodes", drop=["b"])
    change = nodes.tables["nodes"].since(start)
    assert change is not None
    assert change.put == (row("a", 3), row("c"))
    assert change.drop == ("b",)


def test_equal_rows_are_no_change() -> None:
    nodes = board()
    nodes.replace("nodes", [row("a"), row("b")])
    before = nodes.revision
    nodes.replace("nodes", [row("b"), row("a")])
    assert nodes.revision == before


def test_dropped_row_that_returns_is_put_only() -> None:
    nodes = board()
    nodes.apply("nodes", [row("a")])
    start = nodes.revision
    nodes.apply("nodes", drop=["a"])
    nodes.apply("nodes", [row("a")])
    change = nodes.tables["nodes"].since(start)
    assert change is not None
    assert (keys(change.put), change.drop) == (["a"], ())


def test_reader_from_before_the_oldest_drop_reads_again() -> None:
    nodes = board(most_drops=2)
    nodes.apply("nodes", [row(name) for name in "abcd"])
    start = nodes.revision
    for name in "abc":
        nodes.apply("nodes", drop=[name])
    assert nodes.tables["nodes"].since(start) is None
    assert nodes.tables["nodes"].since(start + 1) is not None
    assert nodes.tables["nodes"].since(0) is None, "a revision of another server"


def test_rows_are_read_in_the_order_of_their_keys() -> None:
    nodes = board()
    nodes.apply("nodes", [row("c"), row("a"), row("b")])
    assert [each.key for each in nodes.tables["nodes"].after("a")] == ["b", "c"]
    nodes.apply("nodes", [row("aa")], ["b"])
    assert [each.key for each in nodes.tables["nodes"].after(None)] == ["a", "aa", "c"]


def test_stale_source_keeps_its_time_until_it_heals() -> None:
    now = [1000.0]
    nodes = Board(COMMANDS, lambda: now[0])
    nodes.set_stale("prometheus", "it refuses connections", ["devices"])
    now[0] = 2000.0
    nodes.set_stale("prometheus", "it does not answer", ["devices"])
    stale = nodes.table_stale("devices")
    assert stale is not None
    assert (stale.since, stale.reason) == (1000.0, "it does not answer")
    assert nodes.table_stale("nodes") is None
    nodes.heal("prometheus")
    assert nodes.table_stale("devices") is None


def test_waiter_wakes_with_a_change() -> None:
    async def play() -> int:
        nodes = board()
        waiting = asyncio.create_task(nodes.changed(nodes.revision))
        await asyncio.sleep(0)
        assert not waiting.done()
        nodes.apply("nodes", [row("a")])
        await waiting
        return nodes.revision

    assert asyncio.run(play()) == 1_000_001
