"""Rows become devices x models: the identity of a device, of a model, and repeated measurements."""

import numpy as np
import pytest

from fairlead.errors import SettingsError
from fairlead.evaluate.table import family, physical
from tests.latencies import Line, lines, tables_of

ROW: Line = {"source": "s", "device": "board", "model": "net", "latency_ms": 4}


def test_every_source_is_a_table_of_its_own() -> None:
    tables = tables_of([ROW, ROW | {"source": "other"}, ROW | {"device": "second"}])
    assert [(table.group, table.rows, len(table.keys)) for table in tables] == [("s", 2, 2), ("other", 1, 1)]


def test_the_median_of_repeated_measurements_counts() -> None:
    [table] = tables_of([ROW | {"latency_ms": value} for value in (3, 4, 100)])
    assert np.exp(table.seconds).tolist() == [[pytest.approx(0.004)]]


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        ({"runtime": "b"}, 2),
        ({"precision": "int8"}, 2),
        ({"batch": 8}, 2),
        ({"latency_ms": "", "throughput_fps": 9}, 2),
        ({"note": "once"}, 1),
        ({"model": "second"}, 1),
        ({"input_size": "300"}, 1),
    ],
)
def test_runtime_precision_batch_and_mode_distinguish_devices(change: Line, keys: int) -> None:
    [table] = tables_of([ROW, ROW | change])
    assert len(table.keys) == keys


def test_batches_distinguish_devices_only_where_a_model_has_several() -> None:
    rows = [ROW | {"model": f"net{index}", "batch": 2 ** (index % 3 + 1)} for index in range(9)]
    assert len(tables_of(rows)[0].keys) == 1
    assert len(tables_of([*rows, *(row | {"batch": 64} for row in rows)])[0].keys) == 4


def test_a_note_that_distinguishes_measurements_is_a_configuration() -> None:
    rows = [ROW | {"model": f"net{n}", "note": note} for n in range(4) for note in ("1 stream", "2 streams")]
    [table] = tables_of(rows)
    assert sorted(key.config for key in table.keys) == ["1 stream", "2 streams"]


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA Jetson AGX Xavier (nvpmodel 2)", "nvidia jetson agx xavier"),
        ("Jetson Orin 15W", "jetson orin"),
        ("Board [CPU: Cortex-A72]", "board"),
        ("(only brackets)", "(only brackets)"),
    ],
)
def test_a_power_mode_is_the_same_physical_device(device: str, name: str) -> None:
    assert physical(device) == name


@pytest.mark.parametrize(
    ("model", "name"), [("resnet50d", "resnet"), ("2x-vit_b", "x"), ("ViT_b", "vit"), ("3", "3")]
)
def test_a_family_is_the_leading_letters_of_a_name(model: str, name: str) -> None:
    assert family(model) == name


def test_a_table_has_amounts_and_watts() -> None:
    [table] = tables_of(lines(3, 4, watts=True))
    assert table.seconds.shape == table.watts.shape == (3, 4)
    assert not np.isnan(table.watts).any()
    assert set(table.models[0].views[0]) == {"macs", "params", "activations"}


def test_a_table_beyond_memory_is_refused() -> None:
    rows = [ROW | {"device": f"board {n}", "model": f"net {n}"} for n in range(4600)]
    with pytest.raises(SettingsError, match="too large"):
        tables_of(rows)
