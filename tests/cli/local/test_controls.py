"""The keys of `top`: each one in a small world."""

import pytest

from fairlead.cli.live.keys import SpecialKey
from fairlead.cli.local.live.controls import Controls, SortKey, TopEffect, press, rows_of
from tests.cli.local.worlds import busy_status

ANA, ROOT = 1000, 0


def after(*keys: str, uid: int = ANA) -> tuple[Controls, TopEffect]:
    """Return the controls and the last effect after keys, on the busy machine."""
    world, controls, effect = busy_status(), Controls(), TopEffect.NONE
    for key in keys:
        controls, effect = press(controls, key, rows_of(world, controls), uid)
    return controls, effect


@pytest.mark.parametrize(
    ("keys", "selected"),
    [
        (("j",), "2"),
        ((SpecialKey.DOWN, SpecialKey.DOWN, SpecialKey.UP), "2"),
        (("j", "k", "k"), "1"),
        ((SpecialKey.PAGE_DOWN,), "5"),
        (("G", "g"), "1"),
        ((SpecialKey.END,), "5"),
    ],
)
def test_keys_select_a_job(keys: tuple[str, ...], selected: str) -> None:
    assert after(*keys)[0].selected == selected


def test_s_goes_through_every_order_and_back() -> None:
    orders = [after(*["s"] * times)[0].sort for times in range(len(SortKey) + 1)]
    assert orders == [*SortKey, SortKey.ARRIVAL]


def test_a_filter_is_typed_kept_and_cleared() -> None:
    assert after("/", "b", "x", SpecialKey.BACKSPACE, "o", SpecialKey.ENTER)[0] == Controls(filter="bo")
    assert after("/", "q", SpecialKey.ENTER, SpecialKey.ESCAPE)[0] == Controls()
    assert after("/", "q", SpecialKey.ESCAPE)[0] == Controls()


def test_cancel_asks_and_only_yes_cancels() -> None:
    controls, effect = after("c")
    assert (controls.asking, effect) == ("1", TopEffect.NONE)
    controls, effect = after("c", "n")
    assert (controls.asking, controls.message, effect) == ("", "not cancelled", TopEffect.NONE)
    controls, effect = after("c", "y")
    assert (controls.selected, controls.asking, effect) == ("1", "", TopEffect.CANCEL)


def test_only_the_owner_and_root_cancel() -> None:
    assert after("j", "c")[0].message == "job 2 belongs to bo"
    assert after("j", "c", uid=ROOT)[0].asking == "2"
    assert after("/", "z", SpecialKey.ENTER, "c")[0].message == "no job is selected"


def test_pause_help_and_quit() -> None:
    assert after("p")[0].paused
    assert not after("p", "p")[0].paused
    assert after("h")[0].help
    assert after("?", "x")[0] == Controls()
    assert after("q")[1] is TopEffect.QUIT
    assert after("h", "q")[1] is TopEffect.QUIT
