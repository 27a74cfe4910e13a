"""Cells of NAS-Bench-201: operations, dead edges, and the held-out devices."""

import numpy as np
import pytest

from fairlead.evaluate.nas import UNSEEN, live_edges, operations, splits, wide
from tests.latencies import cells, records

CELL = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|avg_pool_3x3~2|"
DEVICES = (*UNSEEN, "titan_rtx_1", "pixel3", "gold_6240")


def test_a_cell_is_six_operations() -> None:
    assert operations(CELL) == ("nor_conv_3x3", "none", "skip_connect", "none", "none", "avg_pool_3x3")
    assert operations("|none~0|") is None


@pytest.mark.parametrize(
    ("edges", "kept"),
    [
        (("a", "none", "b", "none", "none", "c"), {0, 2, 5}),
        (("a", "none", "none", "b", "none", "none"), {3}),
        (("none", "none", "b", "none", "none", "c"), set()),
        (("a", "b", "c", "none", "none", "none"), set()),
    ],
    ids=["a path", "unread edges", "edges without input", "no path to the output"],
)
def test_dead_edges_are_removed(edges: tuple[str, ...], kept: set[int]) -> None:
    assert {place for place, name in enumerate(live_edges(edges)) if name != "none"} == kept


def test_held_out_devices_are_held_out_with_their_physical_device() -> None:
    table = wide(*records(cells(12, DEVICES)))
    device_splits = splits(table, 4, 0)
    assert [table.keys[split.device].device for split in device_splits] == list(UNSEEN)
    assert all("titan_rtx" in split.held_out for split in device_splits)
    assert {table.physical[7], table.physical[8]}.isdisjoint(device_splits[0].held_out)


def test_invalid_cells_are_left_out() -> None:
    header, rows = records(cells(5))
    table = wide(header, [*rows, {"arch": "nonsense", **dict.fromkeys(header[1:], "1")}])
    assert table.seconds.shape == (5, 5)


def test_a_missing_time_is_a_gap() -> None:
    header, rows = records(cells(5))
    rows[2]["b"] = ""
    table = wide(header, rows)
    assert np.isnan(table.seconds).sum() == 1
    assert table.rows == 24
