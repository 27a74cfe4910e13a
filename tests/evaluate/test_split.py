"""No test row reaches a fit: neither its value nor anything computed from it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.estimate.similar.traits import Array
from fairlead.evaluate.decision import draw_sets
from fairlead.evaluate.methods import METHODS
from fairlead.evaluate.nas import splits as nas_splits
from fairlead.evaluate.nas import wide
from fairlead.evaluate.protocols import families
from fairlead.evaluate.split import Examiner, Split, leave_one_device_out
from fairlead.evaluate.table import LatencyTable
from tests.latencies import cells, lines, records, tables_of

[TABLE] = tables_of(
    [
        *lines(8, 16, watts=True),
        *lines(3, 16, seed=1, runtime="another"),  # of the same boards
    ]
)
CELLS = wide(*records(cells(24)))


def spoilt(table: LatencyTable, split: Split, random: np.random.Generator) -> Array:
    """Return the values with a random one wherever the split hides the true one."""
    values = table.seconds.copy()
    hidden = [index for index, name in enumerate(table.physical) if name in split.held_out]
    strange = random.normal(0, 9, (len(hidden), values.shape[1]))
    strange[random.random(strange.shape) < 0.2] = np.nan
    values[hidden] = strange
    values[split.device, split.calibration] = table.seconds[split.device, split.calibration]
    return values


SPLITS = {
    "new-device": (TABLE, leave_one_device_out(TABLE, ~np.isnan(TABLE.seconds), 5, 0)),
    "spec sheet": (TABLE, leave_one_device_out(TABLE, ~np.isnan(TABLE.seconds), 0, 0)),
    "new-model": (TABLE, families(TABLE, 0)),
    "decision": (TABLE, [split for drawn in draw_sets(TABLE, 5, 0)[:10] for split in drawn]),
    "nas": (CELLS, nas_splits(CELLS, 5, 0)),
}


@pytest.mark.parametrize("protocol", SPLITS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_test_row_reaches_the_fit(protocol: str, seed: int) -> None:
    """Change every hidden value: all predictions stay the same, to the last bit."""
    random = np.random.default_rng(seed)
    table, splits = SPLITS[protocol]
    split = splits[random.integers(len(splits))]
    true = Examiner(table, table.seconds).exam(split)
    false = Examiner(table, spoilt(table, split, random)).exam(split)
    for name, method in METHODS.items():
        before, after = method(true), method(false)
        assert (before is None) == (after is None), name
        if before is not None and after is not None:
            assert np.array_equal(before.logs, after.logs), name
            if before.spread is not None and after.spread is not None:
                assert np.array_equal(before.spread, after.spread), name


@pytest.mark.parametrize("protocol", SPLITS)
def test_splits_are_by_device_or_model(protocol: str) -> None:
    table, splits = SPLITS[protocol]
    assert splits
    for split in splits:
        assert table.physical[split.device] in split.held_out
        assert not set(split.calibration) & set(split.test)
        known = Examiner(table, table.seconds).exam(split).library.devices
        assert {table.devices.index(device) for device in known} == {
            index for index, name in enumerate(table.physical) if name not in split.held_out
        }


def test_a_new_family_is_new_to_every_device() -> None:
    for split in SPLITS["new-model"][1]:
        known = {TABLE.families[column] for column in split.calibration}
        assert not known & {TABLE.families[column] for column in split.test}
        assert split.held_out == set(TABLE.physical)


@pytest.mark.parametrize(
    ("split", "why"),
    [
        (Split(0, frozenset(), np.arange(2), np.arange(3, 5)), "other rows of the new device"),
        (
            Split(0, frozenset([TABLE.physical[0]]), np.arange(3), np.arange(2, 5)),
            "both calibrated and tested",
        ),
    ],
)
def test_a_split_that_leaks_is_refused(split: Split, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Examiner(TABLE, TABLE.seconds).exam(split)


def test_the_seed_decides_the_pack_and_nothing_else() -> None:
    def packs(seed: int) -> list[list[int]]:
        return [
            split.calibration.tolist()
            for split in leave_one_device_out(TABLE, ~np.isnan(TABLE.seconds), 5, seed)
        ]

    assert packs(3) == packs(3) != packs(4)
