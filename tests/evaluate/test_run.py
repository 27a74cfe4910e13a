"""One protocol on one file."""

from pathlib import Path

import pytest

from fairlead.catalog import load
from fairlead.errors import SettingsError
from fairlead.evaluate.run import EvaluationPlan, evaluate
from tests.latencies import cells, lines, write

CATALOG = load()


def test_every_source_of_a_file_is_a_group(tmp_path: Path) -> None:
    rows = [*lines(3, 8, source="one"), *lines(4, 8, source="two")]
    progress: list[tuple[int, int, str]] = []
    document = evaluate(
        EvaluationPlan(write(tmp_path, rows), calibration=4, seed=1),
        CATALOG,
        lambda *step: progress.append(step),
    )
    assert list(document) == ["protocol", "calibration", "seed", "groups"]
    assert (document["protocol"], document["calibration"], document["seed"]) == ("new-device", 4, 1)
    assert [(group["group"], group["devices"], group["rows"]) for group in document["groups"]] == [
        ("one", 3, 24),
        ("two", 4, 32),
    ]
    assert progress == [(0, 2, "one"), (1, 2, "two")]


def test_a_wide_table_is_one_group(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    path.write_text(cells(12), encoding="utf-8")
    [group] = evaluate(EvaluationPlan(str(path), "nas", 4), CATALOG)["groups"]
    assert (group["group"], group["devices"], group["rows"]) == ("nasbench201", 5, 60)


@pytest.mark.parametrize(("calibration", "seed"), [(-1, 0), (0, -1)])
def test_negative_settings_are_refused(tmp_path: Path, calibration: int, seed: int) -> None:
    with pytest.raises(SettingsError, match="must not be negative"):
        evaluate(EvaluationPlan(write(tmp_path, lines(2, 2)), "nas", calibration, seed), CATALOG)
