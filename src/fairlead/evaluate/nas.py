"""The NAS-Bench-201 protocol: networks are cells of six edges, and devices are columns of one wide table."""

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from fairlead.estimate.similar.device import DeviceTraits, words
from fairlead.estimate.similar.traits import ModelTraits
from fairlead.evaluate.result import Result, empty_result, over_models, run_methods
from fairlead.evaluate.rows import number
from fairlead.evaluate.split import FEWEST, Examiner, Split, draw_order, leave_one_device_out, split_pack
from fairlead.evaluate.table import Key, LatencyTable

UNSEEN: Final = ("titan_rtx_256", "gold_6226", "pixel2", "raspi4", "eyeriss", "fpga")
"""The test devices of HELP; where a table lacks one of them, every device is tested."""
_EDGES: Final = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
_CELL: Final = re.compile(r"\|?([a-z0-9_]+)~[0-9]+\|?")
_NOTHING: Final = "none"
_CELLS: Final = 15
_MACS: Final = {"nor_conv_3x3": 9 * 16 * 16 * 1024.0, "nor_conv_1x1": 16 * 16 * 1024.0}
"""Multiply-adds of an operation; the same in all three stages, whose channels double as their sides halve."""
_BATCH: Final = re.compile(r"_(?:1|32|256)$")


def is_wide(header: Sequence[str]) -> bool:
    """Say whether a table is of this kind."""
    return bool(header) and header[0] == "arch"


def wide(header: Sequence[str], records: Sequence[dict[str, str]]) -> LatencyTable:
    """Arrange a wide table: milliseconds of networks x devices."""
    names = header[1:]
    cells = [(record["arch"], operations(record["arch"] or "")) for record in records]
    kept = [index for index, (_, edges) in enumerate(cells) if edges is not None]
    millis = np.array([[number(records[index].get(name)) for index in kept] for name in names])
    seconds = np.log(millis.reshape(len(names), len(kept)) / 1e3)
    keys = tuple(Key(name, "", "", "single") for name in names)
    return LatencyTable(
        group="nasbench201",
        rows=int(np.isfinite(seconds).sum()),
        keys=keys,
        devices=tuple(DeviceTraits(name, (words(name),)) for name in names),
        physical=tuple(_BATCH.sub("", name) for name in names),
        models=tuple(traits(cells[index][0], cells[index][1] or ()) for index in kept),
        families=tuple("cell" for _ in kept),
        seconds=seconds,
        watts=np.full(seconds.shape, np.nan),
    )


def operations(cell: str) -> tuple[str, ...] | None:
    """Return the operations on the six edges of a cell; None where it is not one."""
    names = tuple(_CELL.findall(cell))
    return names if len(names) == len(_EDGES) else None


def live_edges(edges: Sequence[str]) -> tuple[str, ...]:
    """Return the edges with `none` where no path from the input to the output uses them."""
    real = [edge for edge, name in zip(_EDGES, edges, strict=True) if name != _NOTHING]
    reached, needed = {0}, {3}
    for start, end in real:  # edges come in the order of their ends
        reached |= {end} if start in reached else set()
    for start, end in sorted(real, reverse=True):
        needed |= {start} if end in needed else set()
    return tuple(
        name if start in reached and end in needed else _NOTHING
        for (start, end), name in zip(_EDGES, edges, strict=True)
    )


def traits(cell: str, edges: Sequence[str]) -> ModelTraits:
    """Count operations, as written and without dead code: some runtimes remove it and some do not."""
    pruned = live_edges(edges)
    about = {f"{place}:{name}" for place, name in enumerate(edges)}
    about |= {f"live {place}:{name}" for place, name in enumerate(pruned)}
    return ModelTraits(cell, frozenset(about), (_counts(edges), _counts(pruned), {"macs": _macs(edges)}))


def nas(table: LatencyTable, calibration: int, seed: int) -> Result:
    """Take the devices that HELP holds out as new, all at once: `calibration` networks are known on each."""
    if table.group != "nasbench201":
        return empty_result(table, "this protocol needs a table of cells x devices, with a column arch")
    device_splits = splits(table, calibration, seed)
    answers = run_methods(Examiner(table, table.seconds), device_splits)
    figures = {name: over_models(table.seconds, predictions) for name, predictions in answers.items()}
    return Result(table, figures, f"{len(device_splits)} of {len(table.keys)} devices tested")


def splits(table: LatencyTable, calibration: int, seed: int) -> list[Split]:
    """Hold out HELP's devices all at once; in a table without them, each device in turn."""
    measured = ~np.isnan(table.seconds)
    places = {key.device: index for index, key in enumerate(table.keys)}
    if not set(UNSEEN) < set(places):
        return leave_one_device_out(table, measured, calibration, seed)
    order, chosen = draw_order(table, seed), [places[name] for name in UNSEEN]
    held_out = frozenset(table.physical[device] for device in chosen)
    packs = [(device, *split_pack(order, measured[device], calibration)) for device in chosen]
    return [
        Split(device, held_out, pack, rest)
        for device, pack, rest in packs
        if len(pack) == calibration and len(rest) >= FEWEST
    ]


def _macs(edges: Sequence[str]) -> float:
    """Count multiply-adds of the whole network: fifteen cells, a stem and two reductions."""
    return 8.2e6 + sum(_CELLS * _MACS.get(edge, 0.0) for edge in edges)


def _counts(edges: Sequence[str]) -> dict[str, float]:
    names = ("nor_conv_3x3", "nor_conv_1x1", "avg_pool_3x3", "skip_connect")
    return {name: float(sum(edge == name for edge in edges)) for name in names}
