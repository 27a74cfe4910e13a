"""Two sessions of a link over connections that are cut anywhere: nothing is lost, repeated or stuck."""

from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.pipeline.link_world import LinkWorld

STEPS = ("post", "release", "dial", "say", "deliver", "cut", "wait")
Step = tuple[str, bool, int]


def perform(world: LinkWorld, step: Step) -> None:
    """Do one thing at one side, on the newest connection or on one of those before it."""
    what, is_near, age = step
    end = world.near if is_near else world.far
    wire = world.wires[-1 - age] if age < len(world.wires) else None
    if what == "post":
        end.post()
    elif what == "release":
        end.release()
    elif what == "dial":
        world.dial()
    elif what == "wait":
        world.now += 0.006
    elif wire is not None and what == "say":
        world.say(wire, is_near=is_near)
    elif wire is not None and what == "deliver":
        world.deliver(wire, to_near=is_near)
    elif wire is not None and what == "cut":
        world.cut(wire, is_near=is_near)


def assert_whole(world: LinkWorld) -> None:
    """Assert that the connection, or else another one, brings every message over and every credit back."""
    world.settle()
    for end, other in ((world.near, world.far), (world.far, world.near)):
        assert end.received == list(range(other.posted))
        assert end.session.credits == world.depth


STALE_GREETING: list[Step] = [
    *[("dial", True, 0), ("say", True, 0), ("deliver", False, 0)],
    *[("dial", True, 0), ("say", True, 0), ("deliver", False, 0), ("say", False, 0), ("deliver", True, 0)],
    *[("post", True, 0), ("say", True, 0), ("say", True, 0), ("deliver", False, 0), ("deliver", False, 0)],
    *[("release", False, 0), ("say", False, 1)],
]
"""The answer to an old connection comes after a credit that the new connection has to give back."""


@given(
    st.integers(1, 5),
    st.lists(
        st.tuples(st.sampled_from(STEPS), st.booleans(), st.sampled_from((0, 0, 0, 1, 2))), max_size=120
    ),
)
@example(2, STALE_GREETING)
def test_every_message_arrives_once_and_every_credit_comes_back(depth: int, steps: list[Step]) -> None:
    world = LinkWorld(depth)
    for step in steps:
        perform(world, step)
        world.check()
    assert_whole(world)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_a_connection_may_be_cut_after_any_message(depth: int) -> None:
    """Each side hears some messages of the other; what is under way then is lost, or comes late."""
    for heard_far, heard_near, is_late in product(range(9), range(9), (False, True)):
        world = LinkWorld(depth)
        for _ in range(2):
            wire = world.dial()
            left = {False: heard_far, True: heard_near}
            for _ in range(24):
                for is_near in (True, False):
                    world.near.post()
                    world.far.release()
                    world.say(wire, is_near=is_near)
                    if left[not is_near] and world.deliver(wire, to_near=not is_near):
                        left[not is_near] -= 1
                    world.now += 0.003
                world.check()
        if is_late:
            for wire, to_near in product(world.wires, (True, False)):
                while world.deliver(wire, to_near=to_near):
                    world.check()
        assert_whole(world)


def test_a_greeting_on_a_connection_that_has_ended_counts_for_nothing() -> None:
    world = LinkWorld(1)
    old, new = world.dial(), world.dial()
    assert not world.say(old, is_near=True)
    assert world.say(new, is_near=True)


def test_a_side_that_has_left_says_so_on_every_later_connection() -> None:
    world = LinkWorld(1)
    wire = world.dial()
    for is_near in (True, False):
        world.say(wire, is_near=is_near)
        world.deliver(wire, to_near=not is_near)
    world.far.session.close()
    assert wire.far is not None
    list(world.far.session.outgoing(wire.far))  # lost with the connection
    assert world.far.session.has_left
    number, served = world.near.session.connect(), world.far.session.connect()
    for message in world.far.session.outgoing(served):
        world.near.session.receive(number, b"".join(message))
    assert world.near.session.is_over
    assert not world.near.session.failure
