"""The ledger: what is given, what is refused and with which words, and how the kubelet's books correct it."""

from dataclasses import replace

import pytest

from fairlead.inventory import State
from fairlead.offer import Form, Holder, Holding, ranges
from fairlead.publish.ledger import (
    GRACE,
    UNNAMED,
    Ledger,
    Refusal,
    add_claim,
    admit,
    admit_all,
    held_mebibytes,
    observe,
    overlaps,
    release_claim,
)
from fairlead.publish.tally import tally_by_accelerator
from tests.accelerators import accelerator, node
from tests.work import lines

GPU = accelerator("pci:0000:01:00.0", mebibytes=10, name="Big GPU")
STICK = accelerator("usb:1-1", name="Small Stick")
SICK = accelerator("usb:1-2", state=State.PRESENT, name="Sick Stick")
NODE = node(GPU, STICK, SICK)
WEB, CLAIM, OTHER = Holder("default", "web", "main"), Holder("default", "big"), Holder("default", "small")
LATE = GRACE + 1


def whole(acc: str = GPU.id, holder: Holder = UNNAMED) -> Holding:
    return Holding(acc, Form.WHOLE, holder)


def share(*numbers: int, holder: Holder = UNNAMED) -> Holding:
    return Holding(GPU.id, Form.MEMORY, holder, len(numbers), ranges(numbers))


def claim(amount: int, holder: Holder = CLAIM, acc: str = GPU.id) -> Holding:
    return Holding(acc, Form.CLAIM, holder, amount)


def given(*asked: Holding, ledger: Ledger | None = None, now: float = 0.0) -> Ledger:
    """Admit what must be admitted."""
    answer = admit_all(ledger or Ledger(), NODE, asked, now)
    assert isinstance(answer, Ledger), answer
    return answer


FREE = Ledger()
BOOKED = observe(FREE, [share(0, 1, 2, 3, holder=WEB)], 0)
BOOKED_WHOLE = observe(FREE, [whole(holder=WEB)], 0)
CLAIMED = add_claim(FREE, claim(6))
CLAIMED_WHOLE = add_claim(FREE, claim(0))


@pytest.mark.parametrize(
    ("ledger", "asked", "says"),
    [
        (FREE, whole(), ""),
        (FREE, share(*range(10)), ""),
        (FREE, claim(10), ""),
        (FREE, claim(0), ""),
        (FREE, claim(11), "11 MiB of pci-0000-01-00-0 was asked for, but 10 of 10 MiB are free"),
        (
            BOOKED,
            whole(),
            "the whole of pci-0000-01-00-0 was asked for, but some of it is held: default/web/main",
        ),
        (BOOKED, whole(), "holds 4 MiB"),
        (BOOKED, share(4, 5, 6, 7, 8, 9), ""),
        (BOOKED, claim(6), ""),
        (BOOKED, claim(7), "but 6 of 10 MiB are free: default/web/main holds 4 MiB"),
        (BOOKED, claim(0), "the whole of pci-0000-01-00-0 was asked for, but some of it is held"),
        (
            BOOKED_WHOLE,
            share(0),
            "1 MiB of pci-0000-01-00-0 was asked for, but all of it is held: default/web/main",
        ),
        (BOOKED_WHOLE, claim(1), "all of it is held: default/web/main holds all"),
        (BOOKED_WHOLE, whole(STICK.id), ""),
        (CLAIMED, whole(), "some of it is held: default/big holds 6 MiB"),
        (CLAIMED, share(0, 1, 2, 3), ""),
        (CLAIMED, share(0, 1, 2, 3, 4), "4 of 10 MiB are free: default/big holds 6 MiB"),
        (CLAIMED, claim(4, OTHER), ""),
        (CLAIMED, claim(5, OTHER), "4 of 10 MiB are free"),
        (CLAIMED, claim(10), ""),  # the same claim, which now wants more
        (CLAIMED_WHOLE, share(0), "all of it is held: default/big holds all"),
        (CLAIMED_WHOLE, claim(1, OTHER), "all of it is held: default/big holds all"),
        (CLAIMED_WHOLE, claim(0), ""),
        # What cannot be shared is held whole, however little of it a claim wants.
        (add_claim(FREE, claim(1, acc=STICK.id)), claim(1, OTHER, STICK.id), "all of it is held"),
        (FREE, Holding(STICK.id, Form.MEMORY, UNNAMED, 1, ((0, 0),)), "Small Stick cannot be shared"),
        (FREE, share(), "a share of nothing cannot be given"),
        (FREE, whole(SICK.id), "the whole of usb-1-2 was asked for, but Sick Stick is only present: not yet"),
        (add_claim(FREE, claim(0, acc=SICK.id)), claim(0, acc=SICK.id), ""),  # it has it already
        (FREE, whole("gone-1"), "but this node has no such accelerator (any more)"),
    ],
)
def test_what_is_given_and_what_is_refused(ledger: Ledger, asked: Holding, says: str) -> None:
    answer = admit(ledger, NODE, asked)
    if says:
        assert isinstance(answer, Refusal)
        assert says in answer.reason
    else:
        assert isinstance(answer, Ledger)
        assert asked in answer.holdings
        assert overlaps(answer, NODE) == []


def test_a_refusal_names_the_first_few() -> None:
    crowd = observe(FREE, [share(n, holder=Holder("default", f"p{n}", "c")) for n in range(6)], 0)
    answer = admit(crowd, NODE, whole())
    assert isinstance(answer, Refusal)
    assert answer.reason.endswith("default/p3/c holds 1 MiB and 2 more")


def test_all_or_none() -> None:
    assert isinstance(admit_all(FREE, NODE, [whole(), whole(SICK.id)]), Refusal)
    assert len(given(whole(), whole(STICK.id)).holdings) == 2


def test_units_that_the_kubelet_gives_again_pass_to_the_new_holder() -> None:
    # The pod `web` ended, and before we looked the kubelet gave half of its units to another.
    after = given(share(2, 3, 4, 5), ledger=BOOKED)
    assert after.holdings == (share(0, 1, holder=WEB), share(2, 3, 4, 5))
    # An init container ended, and its units are the main container's now.
    again = given(share(0, 1, 2), ledger=given(share(0, 1)))
    assert again.holdings == (share(0, 1, 2),)
    assert given(whole(), ledger=BOOKED_WHOLE).holdings == (whole(),)


def test_a_look_that_began_before_says_nothing() -> None:
    ledger = given(share(0, 1), now=100)
    for began in (99.0, 100.0):
        ledger = observe(ledger, [], began)
    assert ledger.holdings == (share(0, 1),)


def test_a_look_that_shows_it_takes_it_over() -> None:
    ledger = observe(given(share(0, 1), whole(STICK.id), now=100), [share(0, 1, holder=WEB)], 100.1)
    assert set(ledger.holdings) == {share(0, 1, holder=WEB), whole(STICK.id)}
    # And once it was seen, it may end at any time.
    assert observe(ledger, [], 100.2).holdings == (whole(STICK.id),)


def test_an_older_holder_of_the_same_units_is_not_taken_for_the_new_one() -> None:
    # The look began before the units changed hands; it is read after.
    ledger = observe(given(share(0, 1, 2, 3), ledger=BOOKED, now=100), BOOKED.books, 99.9)
    assert ledger.holdings == BOOKED.books, "counted once"
    assert observe(ledger, [], 99.95).holdings == (share(0, 1, 2, 3),), "and not forgotten"


def test_two_late_looks_that_do_not_show_it_end_it() -> None:
    ledger = given(share(0, 1), now=100)
    once = observe(ledger, [], 100 + LATE)
    assert once.holdings == (share(0, 1),)
    assert observe(once, [], 100 + LATE).holdings == ()


def test_a_look_that_shows_half_of_it_ends_nothing() -> None:
    ledger = observe(given(share(0, 1), now=100), [share(1, holder=WEB)], 101)
    assert ledger.holdings == (share(1, holder=WEB), share(0))


def test_claims_are_ours_to_keep() -> None:
    ledger = add_claim(add_claim(CLAIMED, claim(0, acc=STICK.id)), claim(2, OTHER))
    for _ in range(3):
        ledger = observe(ledger, [], 1e9)
    assert len(ledger.claims) == 3
    assert release_claim(ledger, CLAIM).holdings == (claim(2, OTHER),)
    assert release_claim(ledger, Holder("default", "unknown")) == ledger
    assert admit(ledger, NODE, claim(6)) == ledger, "asked again"


def test_how_much_is_held() -> None:
    ledger = add_claim(BOOKED, claim(3))
    assert held_mebibytes(ledger, NODE) == {GPU.id: 7, STICK.id: 0, SICK.id: 0}
    assert held_mebibytes(BOOKED_WHOLE, NODE)[GPU.id] == 10


@pytest.mark.parametrize(
    ("holdings", "fault"),
    [
        (
            (whole(holder=WEB), claim(1)),
            "is held whole, and yet by several: default/web/main holds all, default/big",
        ),
        ((share(0, 1), claim(9)), "has 10 MiB, and 11 are held"),
        ((share(0, 1, 5), share(1, 2, 5)), "unit 1 is held twice"),
        ((whole(), whole(STICK.id), Holding("gone-1", Form.WHOLE, WEB)), ""),
        ((share(0, 1), replace(share(0, 1), mebibytes=2048)), "has 10 MiB, and 2050 are held"),
    ],
)
def test_what_cannot_be(holdings: tuple[Holding, ...], fault: str) -> None:
    faults = overlaps(holdings, NODE)
    assert (fault in faults[0]) if fault else not faults


LARGE = accelerator("pci:0000:02:00.0", mebibytes=4096)


def crowded(shown: int, assumed: int) -> Ledger:
    """Return the ledger when containers hold a MiB each: some by the books, others since."""
    rows = [Holding(LARGE.id, Form.MEMORY, Holder("a", "b", str(at)), 1, ((at, at),)) for at in range(shown)]
    ledger = observe(Ledger(), rows, 0.0)
    for at in range(shown, shown + assumed):
        answer = admit(ledger, node(LARGE), Holding(LARGE.id, Form.MEMORY, UNNAMED, 1, ((at, at),)), at)
        assert isinstance(answer, Ledger)
        ledger = answer
    return ledger


@pytest.mark.parametrize("asked", [1, 2000])
def test_what_a_container_asks_for_is_checked_in_the_same_work_however_many_hold_some(asked: int) -> None:
    holding = Holding(LARGE.id, Form.MEMORY, UNNAMED, asked, ((1000, 999 + asked),))
    few, many = crowded(3, 3), crowded(400, 400)
    assert lines(lambda: admit(many, node(LARGE), holding)) == lines(lambda: admit(few, node(LARGE), holding))


def test_a_look_into_the_books_is_as_much_work_as_there_are_holdings() -> None:
    def look(holders: int) -> int:
        """Return the work of a look that shows every other of those that were assumed."""
        assumed, shown = crowded(0, holders), crowded(holders, 0).books[::2]
        return lines(lambda: list(observe(assumed, shown, 1.0)))

    assert look(160) < 5 * look(40)


def test_sums_are_those_of_the_holdings() -> None:
    ledger = given(share(0, 1), claim(3), share(4, 5), ledger=BOOKED)
    assert ledger.tallies == tally_by_accelerator(ledger.holdings)
    assert ledger.tallies[GPU.id].mebibytes == sum(each.mebibytes for each in ledger)
