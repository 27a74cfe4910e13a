"""Random interleavings of workers, lost replies, kills, restarts and full disks: each input has one result.

60 seeded runs, and 3000 with FAIRLEAD_CHAOS=long.
"""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from fairlead.store.refusal import RefusedError
from tests.store.jobs.crew import Bench, result, stated

RUNS = 3000 if os.environ.get("FAIRLEAD_CHAOS") == "long" else 60
INPUTS = 40


class Chancy:
    """A worker whose requests, replies and memory get lost."""

    def __init__(self, name: str, dice: random.Random) -> None:
        self.name, self._dice = name, dice
        self.site = dice.choice(("device", "pod"))
        self.held: dict[int, dict[str, Any]] = {}
        self.finished: dict[int, dict[str, Any]] = {}
        self.acknowledged: dict[int, str] = {}
        """Results that count, as the coordinator said; not all, where replies are lost."""

    def step(self, bench: Bench, job: str) -> None:
        """Do some inputs, and exchange; or lose something."""
        if self._dice.random() < 0.05:  # a kill; what it had finished is on its disk, or not
            self.held.clear()
            if self._dice.random() < 0.5:
                self.finished.clear()
        for number in [each for each in self.held if self._dice.random() < 0.6]:
            lease = self.held.pop(number)
            self.finished[number] = result(lease, f"{lease['path']} by {self.name}")
        handed_in = [each for each in self.finished.values() if self._dice.random() < 0.8]
        held = [*self.held, *(set(self.finished) - {each["input"] for each in handed_in})]
        said = {"site": self.site, "results": handed_in, "held": held, "want": self._dice.random() < 0.8}
        try:
            reply = bench.exchange(job, self.name, **said)
        except RefusedError:
            return
        if self._dice.random() < 0.15:  # the reply is lost
            return
        for each in handed_in:
            self.finished.pop(each["input"], None)
            if each["input"] not in reply["dropped"]:
                assert each["input"] not in self.acknowledged
                self.acknowledged[each["input"]] = each["digest"]
        for number in reply["dropped"]:
            self.held.pop(number, None)
        self.held |= {each["input"]: each for each in reply["leases"]}


def disturb(bench: Bench, dice: random.Random) -> None:
    """Let something happen to the coordinator."""
    chance = dice.random()
    if chance < 0.05:
        bench.end()
        bench.begin()
    elif chance < 0.1:  # the disk is full, until the next time
        pages = bench.coordinator.database.rows("PRAGMA page_count")[0][0]
        bench.coordinator.database.rows(f"PRAGMA max_page_count = {pages}")
    elif chance < 0.3:
        bench.coordinator.database.rows("PRAGMA max_page_count = 1000000")
    bench.now += dice.choice((0.0, 0.01, 0.3, 5.0, 40.0))


@pytest.mark.parametrize("ten", range(RUNS // 10))
def test_each_input_has_one_result_whatever_happens(tmp_path: Path, ten: int) -> None:
    for seed in range(ten * 10, ten * 10 + 10):
        dice = random.Random(seed)
        bench = Bench(tmp_path / f"{seed}.sqlite")
        job = bench.coordinator.make({"command": ["true"], "policy": "split"})
        names = [f"f{number}" for number in range(INPUTS)]
        bench.add(job, [stated(name) for name in names], complete=True)
        crew = [Chancy(f"w{number}", dice) for number in range(dice.randrange(1, 4))]
        for _ in range(3000):
            disturb(bench, dice)
            dice.choice(crew).step(bench, job)
            if bench.coordinator.job(job)["state"] == "done":
                break
        rows = bench.coordinator.results(job, 0)["results"]
        assert sorted(row["path"] for row in rows) == sorted(names), f"seed {seed}"
        recorded = {row["path"]: row["result"] for row in rows}
        for each in crew:
            for number, digest in each.acknowledged.items():
                assert recorded[f"f{number - 1}"] == digest, f"seed {seed}"
        assert bench.coordinator.job(job)["counts"]["done"] == INPUTS, f"seed {seed}"
        assert len({row["number"] for row in rows}) == INPUTS
        bench.end()
