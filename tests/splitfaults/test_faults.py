"""No result is lost and none is doubled, whatever is killed, cut off or full: real processes, seeded.

Two runs, and 200 with FAIRLEAD_CHAOS=long.
"""

import os
import threading
from pathlib import Path

import pytest

from tests.splitfaults.world import faults, world

LONG = os.environ.get("FAIRLEAD_CHAOS") == "long"
RUNS = 200 if LONG else 2
INPUTS = 400 if LONG else 150


@pytest.mark.parametrize("seed", range(RUNS))
def test_each_input_has_one_result_after_faults(tmp_path: Path, seed: int) -> None:
    with world(tmp_path, seed, INPUTS) as made:
        kinds = faults(made)
        # Each kind once in some order, in a short run the half of them.
        made.dice.shuffle(kinds)
        for kind in kinds if LONG else kinds[:3]:
            threading.Event().wait(made.dice.random() * 0.4)
            made.strike(kind)
        made.finish()
        made.check()
