"""A model on every device of a fleet."""

import asyncio
from pathlib import Path

import pytest

from fairlead.catalog import load
from fairlead.dashboard.answers import ModelDevices
from fairlead.dashboard.predictions import read_models
from fairlead.dashboard.sources.snapshot import SnapshotSource
from fairlead.estimate.knowledge import Knowledge
from fairlead.zoo import PACK
from fairlead.zoo.onnxfile import write
from tests.dashboard.samples import cluster


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> ModelDevices:
    path = Path(tmp_path_factory.mktemp("models")) / "small.onnx"
    write(PACK["plain"](1, "fp32"), str(path))
    catalog = load()
    source = SnapshotSource(cluster(6, 6), "cluster.json", catalog, lambda: 1e9)
    source.show_models(read_models([str(path)]), catalog, Knowledge.of((), catalog, ()))
    assert asyncio.run(source.predictions("other.onnx")) is None
    made = asyncio.run(source.predictions("small.onnx"))
    assert made is not None
    return made


def test_each_device_of_the_fleet_has_a_row(answer: ModelDevices) -> None:
    keys = {row.key for row in answer.rows}
    assert keys == {"t4", "l4", "a10", "a100-sxm4-80gb", "jetson-orin-nx-16gb"}


def test_the_bar_of_the_error_surrounds_the_latency(answer: ModelDevices) -> None:
    for row in answer.rows:
        assert row.seconds is not None
        assert row.low_seconds is not None
        assert row.p90_seconds is not None
        assert row.low_seconds < row.seconds < row.p90_seconds
        assert row.low_seconds * row.p90_seconds == pytest.approx(row.seconds**2)
    seconds = [row.seconds or 0.0 for row in answer.rows]
    assert seconds == sorted(seconds)
