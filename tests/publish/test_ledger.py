"""The ledger: what it admits, what it refuses with which text, and how pod resources correct it."""

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
UNHEALTHY = accelerator("usb:1-2", state=State.PRESENT, name="Sick Stick")
NODE = node(GPU, STICK, UNHEALTHY)
WEB, CLAIM, OTHER = Holder("default", "web", "main"), Holder("default", "big"), Holder("default", "small")
LATE = GRACE + 1


def whole(acc: str = GPU.id, holder: Holder = UNNAMED) -> Holding:
    return Holding(acc, Form.WHOLE, holder)


def share(*numbers: int, holder: Holder = UNNAMED) -> Holding:
    return Holding(GPU.id, Form.MEMORY, holder, len(numbers), ranges(numbers))


def claim(amount: int, holder: Holder = CLAIM, acc: str = GPU.id, *, by_use: bool = False) -> Holding:
    return Holding(acc, Form.CLAIM, holder, amount, by_use=by_use)


def admitted(*asked: Holding, ledger: Ledger | None = None, now: float = 0.0) -> Ledger:
    """Admit holdings that must be admitted."""
    answer = admit_all(ledger or Ledger(), NODE, asked, now)
    assert isinstance(answer, Ledger), answer
    return answer


FREE = Ledger()
REPORTED = observe(FREE, [share(0, 1, 2, 3, holder=WEB)], 0)
REPORTED_WHOLE = observe(FREE, [whole(holder=WEB)], 0)
CLAIMED = add_claim(FREE, claim(6))
CLAIMED_WHOLE = add_claim(FREE, claim(0))


@pytest.mark.parametrize(
    ("ledger", "asked", "says"),
    [
        (FREE, whole(), ""),
        (FREE, share(*range(10)), ""),
        (FREE, claim(10), ""),
        (FREE, claim(0), ""),
        (FREE, claim(11), "11 MiB of pci-0000-01-00-0 was requested, but 10 of 10 MiB are free"),
        (
            REPORTED,
            whole(),
            "the whole of pci-0000-01-00-0 was requested, but some of it is held: default/web/main",
        ),
        (REPORTED, whole(), "holds 4 MiB"),
        (REPORTED, share(4, 5, 6, 7, 8, 9), ""),
        (REPORTED, claim(6), ""),
        (REPORTED, claim(7), "but 6 of 10 MiB are free: default/web/main holds 4 MiB"),
        (REPORTED, claim(0), "the whole of pci-0000-01-00-0 was requested, but some of it is held"),
        (
            REPORTED_WHOLE,
            share(0),
            "1 MiB of pci-0000-01-00-0 was requested, but all of it is held: default/web/main",
        ),
        (REPORTED_WHOLE, claim(1), "all of it is held: default/web/main holds all"),
        (REPORTED_WHOLE, whole(STICK.id), ""),
        (CLAIMED, whole(), "some of it is held: default/big holds 6 MiB"),
        (CLAIMED, share(0, 1, 2, 3), ""),
        (CLAIMED, share(0, 1, 2, 3, 4), "4 of 10 MiB are free: default/big holds 6 MiB"),
        (CLAIMED, claim(4, OTHER), ""),
        (CLAIMED, claim(5, OTHER), "4 of 10 MiB are free"),
        (CLAIMED, claim(5, OTHER, by_use=True), ""),  # the scheduler knows that the first one uses less
        (CLAIMED, claim(11, OTHER, by_use=True), "10 of 10 MiB are free"),
        (CLAIMED, claim(0, OTHER, by_use=True), "some of it is held"),
        (CLAIMED_WHOLE, claim(1, OTHER, by_use=True), "all of it is held"),
        (CLAIMED, claim(10), ""),  # the same claim, which now requests more
        (CLAIMED_WHOLE, share(0), "all of it is held: default/big holds all"),
        (CLAIMED_WHOLE, claim(1, OTHER), "all of it is held: default/big holds all"),
        (CLAIMED_WHOLE, claim(0), ""),
        # An accelerator that cannot be shared is held whole, however little a claim requests.
        (add_claim(FREE, claim(1, acc=STICK.id)), claim(1, OTHER, STICK.id), "all of it is held"),
        (FREE, Holding(STICK.id, Form.MEMORY, UNNAMED, 1, ((0, 0),)), "Small Stick cannot be shared"),
        (FREE, share(), "a share of 0 MiB cannot be allocated"),
        (
            FREE,
            whole(UNHEALTHY.id),
            "the whole of usb-1-2 was requested, but Sick Stick is only present: not yet",
        ),
        (
            add_claim(FREE, claim(0, acc=UNHEALTHY.id)),
            claim(0, acc=UNHEALTHY.id),
            "",
        ),  # the claim holds it already
        (FREE, whole("gone-1"), "but this node has no such accelerator (any more)"),
    ],
)
def test_which_holdings_are_admitted_or_refused(ledger: Ledger, asked: Holding, says: str) -> None:
    answer = admit(ledger, NODE, asked)
    if says:
        assert isinstance(answer, Refusal)
        assert says in answer.reason
    else:
        assert isinstance(answer, Ledger)
        assert asked in answer.holdings
        assert overlaps(answer, NODE) == []


def test_a_refusal_names_the_first_few_holders() -> None:
    crowd = observe(FREE, [share(n, holder=Holder("default", f"p{n}", "c")) for n in range(6)], 0)
    answer = admit(crowd, NODE, whole())
    assert isinstance(answer, Refusal)
    assert answer.reason.endswith("default/p3/c holds 1 MiB and 2 more")


def test_all_or_none() -> None:
    assert isinstance(admit_all(FREE, NODE, [whole(), whole(UNHEALTHY.id)]), Refusal)
    assert len(admitted(whole(), whole(STICK.id)).holdings) == 2


def test_units_that_the_kubelet_allocates_again_pass_to_the_new_holder() -> None:
    # The pod `web` ended, and before the next read the kubelet allocated half of its units to another.
    after = admitted(share(2, 3, 4, 5), ledger=REPORTED)
    assert after.holdings == (share(0, 1, holder=WEB), share(2, 3, 4, 5))
    # An init container ended, and its units are the main container's now.
    again = admitted(share(0, 1, 2), ledger=admitted(share(0, 1)))
    assert again.holdings == (share(0, 1, 2),)
    assert admitted(whole(), ledger=REPORTED_WHOLE).holdings == (whole(),)


def test_a_read_that_began_before_an_allocation_says_nothing_about_it() -> None:
    ledger = admitted(share(0, 1), now=100)
    for began in (99.0, 100.0):
        ledger = observe(ledger, [], began)
    assert ledger.holdings == (share(0, 1),)


def test_a_read_that_lists_an_allocation_confirms_it() -> None:
    ledger = observe(admitted(share(0, 1), whole(STICK.id), now=100), [share(0, 1, holder=WEB)], 100.1)
    assert set(ledger.holdings) == {share(0, 1, holder=WEB), whole(STICK.id)}
    # And once it was listed, it may end at any time.
    assert observe(ledger, [], 100.2).holdings == (whole(STICK.id),)


def test_an_older_holder_of_the_same_units_does_not_confirm_the_new_one() -> None:
    # The read began before the units changed their holder, and ended after.
    ledger = observe(admitted(share(0, 1, 2, 3), ledger=REPORTED, now=100), REPORTED.reported, 99.9)
    assert ledger.holdings == REPORTED.reported, "counted once"
    assert observe(ledger, [], 99.95).holdings == (share(0, 1, 2, 3),), "and not forgotten"


def test_two_late_reads_that_miss_an_allocation_end_it() -> None:
    ledger = admitted(share(0, 1), now=100)
    once = observe(ledger, [], 100 + LATE)
    assert once.holdings == (share(0, 1),)
    assert observe(once, [], 100 + LATE).holdings == ()


def test_a_read_that_lists_half_of_an_allocation_ends_nothing() -> None:
    ledger = observe(admitted(share(0, 1), now=100), [share(1, holder=WEB)], 101)
    assert ledger.holdings == (share(1, holder=WEB), share(0))


def test_claims_stay_until_they_are_released() -> None:
    ledger = add_claim(add_claim(CLAIMED, claim(0, acc=STICK.id)), claim(2, OTHER))
    for _ in range(3):
        ledger = observe(ledger, [], 1e9)
    assert len(ledger.claims) == 3
    assert release_claim(ledger, CLAIM).holdings == (claim(2, OTHER),)
    assert release_claim(ledger, Holder("default", "unknown")) == ledger
    assert admit(ledger, NODE, claim(6)) == ledger, "asked again"


def test_the_held_memory() -> None:
    ledger = add_claim(REPORTED, claim(3))
    assert held_mebibytes(ledger, NODE) == {GPU.id: 7, STICK.id: 0, UNHEALTHY.id: 0}
    assert held_mebibytes(REPORTED_WHOLE, NODE)[GPU.id] == 10


@pytest.mark.parametrize(
    ("holdings", "fault"),
    [
        (
            (whole(holder=WEB), claim(1)),
            "is held whole, and by several holders: default/web/main holds all, default/big",
        ),
        ((share(0, 1), claim(9)), "has 10 MiB, and 11 are held"),
        ((share(0, 1, 5), share(1, 2, 5)), "unit 1 is held twice"),
        ((whole(), whole(STICK.id), Holding("gone-1", Form.WHOLE, WEB)), ""),
        ((share(0, 1), replace(share(0, 1), mebibytes=2048)), "has 10 MiB, and 2050 are held"),
    ],
)
def test_overlaps_are_reported(holdings: tuple[Holding, ...], fault: str) -> None:
    faults = overlaps(holdings, NODE)
    assert (fault in faults[0]) if fault else not faults


LARGE = accelerator("pci:0000:02:00.0", mebibytes=4096)


def crowded(reported: int, assumed: int) -> Ledger:
    """Return a ledger of containers with a MiB each: some reported, others assumed."""
    rows = [
        Holding(LARGE.id, Form.MEMORY, Holder("a", "b", str(at)), 1, ((at, at),)) for at in range(reported)
    ]
    ledger = observe(Ledger(), rows, 0.0)
    for at in range(reported, reported + assumed):
        answer = admit(ledger, node(LARGE), Holding(LARGE.id, Form.MEMORY, UNNAMED, 1, ((at, at),)), at)
        assert isinstance(answer, Ledger)
        ledger = answer
    return ledger


@pytest.mark.parametrize("asked", [1, 2000])
def test_the_cost_of_admission_does_not_depend_on_the_number_of_holders(asked: int) -> None:
    holding = Holding(LARGE.id, Form.MEMORY, UNNAMED, asked, ((1000, 999 + asked),))
    few, many = crowded(3, 3), crowded(400, 400)
    admit(few, node(LARGE), holding)  # the first call in a process fills caches
    assert lines(lambda: admit(many, node(LARGE), holding)) == lines(lambda: admit(few, node(LARGE), holding))


def test_the_cost_of_a_read_is_linear_in_the_number_of_holdings() -> None:
    def observe_half(holders: int) -> int:
        """Return the work of a read that lists every other assumed allocation."""
        assumed, reported = crowded(0, holders), crowded(holders, 0).reported[::2]
        return lines(lambda: list(observe(assumed, reported, 1.0)))

    assert observe_half(160) < 5 * observe_half(40)


def test_tallies_equal_the_sums_of_the_holdings() -> None:
    ledger = admitted(share(0, 1), claim(3), share(4, 5), ledger=REPORTED)
    assert ledger.tallies == tally_by_accelerator(ledger.holdings)
    assert ledger.tallies[GPU.id].mebibytes == sum(each.mebibytes for each in ledger)
