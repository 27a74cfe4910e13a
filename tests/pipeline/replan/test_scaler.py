"""The replicas of a stage by its load: tables of single loads, and loads that last, change and flicker."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.pipeline.replan.scaler import PAUSE, ReplicaScaler, ScaleWish, StageLoad
from fairlead.pipeline.spec import ReplicaScale
from fairlead.units import Seconds

SCALE = ReplicaScale(1, 4)
CALM = StageLoad(2, busy=0.5, rate=20.0, held=0, size=16, age=0.1, drop_rate=0.0)
FULL = replace(CALM, busy=0.95, held=14)
OLD = replace(CALM, busy=0.95, age=1.2)
DROPS = replace(CALM, busy=1.0, rate=20.0, drop_rate=15.0)


def last_wish(load: StageLoad, seconds: int, scale: ReplicaScale = SCALE) -> ScaleWish | None:
    """Return what a stage wishes after so many seconds of one load."""
    scaler = ReplicaScaler(scale)
    wishes = [scaler.observe(load, float(now)) for now in range(100, 101 + seconds)]
    assert not any(wishes[:-1])
    return wishes[-1]


@pytest.mark.parametrize(
    ("load", "seconds", "wish"),
    [
        (CALM, 600, None),
        (FULL, 29, None),
        (FULL, 30, ScaleWish(3, "14 of 16 frames waited for 30s")),
        (OLD, 30, ScaleWish(3, "frames were 1.2s old for 30s")),
        (DROPS, 30, ScaleWish(4, "15 frames/s were dropped before it for 30s")),
        (replace(OLD, replicas=1), 30, ScaleWish(2, "frames were 1.2s old for 30s")),
        (replace(OLD, replicas=4), 600, None),
        (replace(OLD, busy=0.6), 600, None),  # another stage is what frames wait for
        (replace(FULL, cores=2), 600, None),
        (
            replace(DROPS, cores=3),
            30,
            ScaleWish(3, "15 frames/s were dropped before it for 30s; its hosts have cores for 3"),
        ),
        (replace(CALM, busy=0.25), 299, None),
        (replace(CALM, busy=0.25), 300, ScaleWish(1, "1 replica would have been enough for 5m")),
        (
            replace(CALM, replicas=4, busy=0.25),
            300,
            ScaleWish(2, "2 replicas would have been enough for 5m"),
        ),
        (replace(CALM, replicas=1, busy=0.0), 600, None),
        (replace(CALM, replicas=6), 0, ScaleWish(4, "1 to 4 replicas are stated now")),
    ],
)
def test_one_load(load: StageLoad, seconds: int, wish: ScaleWish | None) -> None:
    assert last_wish(load, seconds) == wish


def test_what_holds_it_is_said() -> None:
    for load, text in (
        (replace(OLD, replicas=4), "max is 4"),
        (replace(FULL, cores=2), "its hosts have cores for 2"),
    ):
        scaler = ReplicaScaler(SCALE)
        for now in range(31):
            scaler.observe(load, float(now))
        assert scaler.held_by == text
        scaler.observe(CALM, 31.0)
        assert scaler.held_by == ""


def test_a_moment_of_calm_and_a_time_without_measurements_begin_again() -> None:
    for between, at in ((CALM, 20.0), (OLD, 40.0)):
        scaler = ReplicaScaler(SCALE)
        for now in range(20):
            assert scaler.observe(OLD, float(now)) is None
        assert scaler.observe(between, at) is None
        assert scaler.observe(OLD, at + 1) is None
        wishes = [scaler.observe(OLD, at + more) for more in range(2, 33)]
        assert [bool(wish) for wish in wishes].index(True) >= 28


def test_a_change_that_was_given_up_is_tried_later_each_time() -> None:
    scaler, now, waits = ReplicaScaler(SCALE), 0.0, []
    for _ in range(4):
        since = now
        while scaler.observe(OLD, now) is None:
            now += 1
        waits.append(now - since)
        scaler.on_given_up(now)
    assert waits == [30, 40, 50, 70]


@dataclass
class World:
    """A stage, its frames, and the replicas that it gets at once."""

    scale: ReplicaScale
    seconds_a_frame: float
    drops: bool
    cores: int | None = None

    def run(self, offered: Sequence[float]) -> list[tuple[int, int, int]]:
        """Return the changes as time, replicas before and after, of frames that are offered by the second."""
        scaler, replicas, changes = ReplicaScaler(self.scale), self.scale.least, []
        for now, frames in enumerate(offered):
            wish = scaler.observe(self._load(frames, replicas), float(now))
            if wish is not None:
                changes.append((now, replicas, wish.replicas))
                replicas = wish.replicas
                scaler.on_changed(float(now))
        return changes

    def _load(self, offered: float, replicas: int) -> StageLoad:
        most = replicas / self.seconds_a_frame
        taken, is_full = min(offered, most), offered > 0.86 * most  # frames come unevenly, and wait before
        busy, size = min(1.0, taken * self.seconds_a_frame / replicas), 8 * replicas
        dropped = offered - taken if self.drops else 0.0
        return StageLoad(
            replicas,
            busy,
            rate=taken,
            held=size if is_full else 0,
            size=size,
            age=2.0 if is_full else 0.05,
            drop_rate=dropped,
            cores=self.cores,
        )


SCALES = st.builds(
    lambda least, more, up, down: ReplicaScale(
        least, least + more, up_after=Seconds(up), down_after=Seconds(up + down)
    ),
    st.integers(1, 4),
    st.integers(0, 12),
    st.integers(2, 40),
    st.integers(0, 80),
)
WORLDS = st.builds(
    World, SCALES, st.floats(0.005, 0.5), st.booleans(), st.one_of(st.none(), st.integers(1, 16))
)
DEMANDS = st.floats(0, 20)
"""Replicas that a load keeps busy."""
NOISE = st.lists(st.floats(0.95, 1.05), min_size=7, max_size=7)


def ways_of(changes: list[tuple[int, int, int]]) -> list[str]:
    """Return whether each change was up or down."""
    return ["up" if after > before else "down" for _, before, after in changes]


@given(WORLDS, DEMANDS, NOISE)
def test_a_steady_load_moves_it_up_and_then_perhaps_down_never_back(
    world: World, demand: float, noise: list[float]
) -> None:
    offered = demand / world.seconds_a_frame
    ways = ways_of(world.run([offered * noise[now % 7] for now in range(2000)]))
    assert ways == sorted(ways, reverse=True), "ups come before downs"
    assert len(ways) <= 12


@pytest.mark.parametrize("drops", [True, False])
def test_each_steady_load_gets_as_many_as_it_needs_and_no_more(drops: bool) -> None:
    """Loads of up to nine replicas in steps of a twentieth; what blocks hides its load."""
    scale = ReplicaScale(1, 16, up_after=Seconds(3), down_after=Seconds(20))
    for demand in (step / 20 for step in range(1, 180)):
        world = World(scale, 0.1, drops)
        changes = world.run([demand / 0.1] * 200)
        ways, last = ways_of(changes), changes[-1][2] if changes else 1
        assert ways == sorted(ways, reverse=True)
        assert demand <= 0.86 * last
        assert last == 1 or demand > 0.86 * last / 2


@given(WORLDS, st.lists(st.tuples(DEMANDS, st.integers(1, 300)), min_size=1, max_size=8))
def test_any_load_stays_within_its_bounds_and_changes_slowly(
    world: World, steps: list[tuple[float, int]]
) -> None:
    offered = [demand / world.seconds_a_frame for demand, seconds in steps for _ in range(seconds)]
    changes = world.run(offered)
    scale, room = world.scale, world.cores or world.scale.most
    for _, before, after in changes:
        assert scale.least <= after <= scale.most
        assert after < before or after <= room
    for (earlier, *_), (now, before, after) in pairwise([(0, 0, 0), *changes]):
        lasted = scale.up_after if after > before else scale.down_after
        assert now - earlier >= lasted
        if earlier:
            assert now - earlier >= lasted + PAUSE
    turns = [now for (_, a, b), (now, c, d) in pairwise(changes) if (b > a) != (d > c)]
    assert len(turns) <= len(steps), "it turns with the load only"
