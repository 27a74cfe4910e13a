"""Simulated runs beside what a source shows."""

import asyncio
import json
from pathlib import Path

import pytest

from fairlead.catalog import load
from fairlead.dashboard.row_types import SimulationRow
from fairlead.dashboard.simulations import read_simulations
from fairlead.dashboard.sources.snapshot import SnapshotSource
from fairlead.errors import ManifestError
from tests.dashboard.samples import cluster

RUN = {
    "policy": "spread",
    "done": 7,
    "wait_s": {"mean": 1.5, "p99": None},
    "series": {"at_s": [0.0, 1.0], "utilisation_percent": [10.0, 20.0], "odd": [1.0]},
}


def test_runs_are_rows_and_series(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    path.write_text(json.dumps({"trace": "mixed", "jobs": 9, "policies": [RUN]}))
    source = SnapshotSource(cluster(1, 1), "c.json", load(), lambda: 1e9)
    source.show_simulations(read_simulations([str(path)]))
    row = source.board.tables["simulations"].rows["runs.json/spread"]
    assert isinstance(row, SimulationRow)
    assert (row.name, row.policy, row.jobs) == ("mixed", "spread", 9)
    figures = {figure.name: (figure.value, figure.unit) for figure in row.figures}
    assert figures == {"done": (7.0, ""), "wait, mean": (1.5, "s"), "wait, p99": (None, "s")}
    answer = asyncio.run(source.simulation("runs.json/spread"))
    assert answer is not None
    assert [(each.name, each.unit, each.values) for each in answer.series] == [
        ("utilisation", "%", [10.0, 20.0])
    ]


@pytest.mark.parametrize("content", ["[]", "{}", '{"policies": [{}]}'])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(ManifestError):
        read_simulations([str(path)])
