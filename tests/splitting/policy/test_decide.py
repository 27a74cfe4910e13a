"""Which alternative a job gets: tables of cases, and what holds for every job."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.splitting.policy.decide import HELPS, PolicyDecision, behind, cost, decide
from fairlead.splitting.policy.expected import CHOICES, ExpectedCost, Impossible, OffloadChoice, expect
from fairlead.splitting.policy.explain import HEAD, explain, explain_facts, explain_rows, to_json
from fairlead.splitting.policy.facts import (
    Compute,
    OffloadFacts,
    OffloadLink,
    OffloadObjective,
    SideFacts,
    Storage,
)
from fairlead.splitting.policy.rates import RateBasis, SideRate
from fairlead.splitting.policy.revise import Hysteresis
from fairlead.units import Bytes
from tests.splitting.policy.worlds import JOBS, MB, job

DEVICE, SERVER, SPLIT = Compute.DEVICE, Compute.SERVER, Compute.SPLIT
FAST_LINK = OffloadLink(1e9, 1e9)


def taken(facts: OffloadFacts) -> tuple[Compute, Storage]:
    chosen = decide(facts).chosen
    assert chosen is not None
    return chosen.choice.compute, chosen.choice.storage


def at(facts: OffloadFacts, compute: Compute, storage: Storage = Storage.DEVICE) -> ExpectedCost:
    found = expect(OffloadChoice(compute, storage), facts)
    assert isinstance(found, ExpectedCost)
    return found


@pytest.mark.parametrize(
    ("ratio", "gain", "compute"),
    [(36.8, 1 / 36.8, SPLIT), (306.0, 1 / 306, SERVER), (7.25, 1 / 7.25, SPLIT), (1.4, 1 / 1.4, SPLIT)],
)
def test_a_split_gains_what_the_device_adds(ratio: float, gain: float, compute: Compute) -> None:
    facts = job(1.0, ratio, link=FAST_LINK, result_bytes=0.0)
    alone, both = at(facts, SERVER), at(facts, SPLIT)
    assert alone.seconds is not None
    assert both.seconds is not None
    assert alone.seconds / both.seconds - 1 == pytest.approx(gain, rel=1e-3)
    assert taken(facts)[0] is compute


@pytest.mark.parametrize(
    ("facts", "compute", "storage"),
    [
        (job(10.0, 0.01), DEVICE, Storage.DEVICE),
        (job(10.0, 10.0, link=None), DEVICE, Storage.DEVICE),
        (job(1.0, 1000.0, link=FAST_LINK), SERVER, Storage.SERVER),
        # Most results are made on the server, and stay there unless they are wanted here.
        (job(1.0, 5.0), SPLIT, Storage.SERVER),
        (job(1.0, 5.0, storage=Storage.DEVICE), SPLIT, Storage.DEVICE),
        # 100 inputs a second cross the link: the server alone would wait for it.
        (job(20.0, 500.0, input_bytes=100e3), SPLIT, Storage.SERVER),
        # No space for 2 MB of results: storage alone is offloaded, or both.
        (job(SideFacts(SideRate(10.0), free=Bytes(10**6)), 0.01), DEVICE, Storage.SERVER),
        (
            job(SideFacts(SideRate(0.01), free=Bytes(10**6)), 99.0, link=FAST_LINK),
            SERVER,
            Storage.SERVER,
        ),
        # Everything is in the store, results too.
        (job(1.0, 1e4, on_device=0.0, stored=1.0, storage=Storage.SERVER), SERVER, Storage.SERVER),
        # 6 W for 1,000 s against 2 W for 100 s.
        (
            job(
                SideFacts(SideRate(1.0), busy_watts=6, idle_watts=2),
                10.0,
                objective=OffloadObjective.ENERGY,
            ),
            SERVER,
            Storage.SERVER,
        ),
    ],
)
def test_compute_storage_or_both(facts: OffloadFacts, compute: Compute, storage: Storage) -> None:
    assert taken(facts) == (compute, storage)


@pytest.mark.parametrize(
    ("facts", "choice", "reason"),
    [
        (job(link=None), OffloadChoice(SERVER, Storage.DEVICE), "the server cannot be reached"),
        (
            job(link=None, on_device=0.5),
            OffloadChoice(DEVICE, Storage.DEVICE),
            "the server has inputs, and cannot be reached",
        ),
        (job(storage=Storage.SERVER), OffloadChoice(SPLIT, Storage.DEVICE), "results belong to the server"),
        (
            job(device=SideFacts(SideRate(1.0), refusal="the model needs 2 GiB")),
            OffloadChoice(SPLIT, Storage.DEVICE),
            "the device cannot compute: the model needs 2 GiB",
        ),
        (
            job(server=SideFacts(SideRate(1.0), free=Bytes(1 << 20))),
            OffloadChoice(SERVER, Storage.DEVICE),
            "the server has 1.0 MiB free, and 191 MiB are needed",
        ),
        (
            job(SideFacts(SideRate(1.0), busy_watts=5, energy=1000.0)),
            OffloadChoice(DEVICE, Storage.DEVICE),
            "it takes 5000 J of the device, which has 1000 J",
        ),
        (
            job(link=OffloadLink(0.0, 1e6)),
            OffloadChoice(SERVER, Storage.DEVICE),
            "it never ends: link up is too slow",
        ),
    ],
)
def test_an_impossible_alternative_says_why(facts: OffloadFacts, choice: OffloadChoice, reason: str) -> None:
    assert expect(choice, facts) == Impossible(choice, reason)


def test_a_side_of_which_nothing_is_known_is_measured_by_a_split() -> None:
    decision = decide(job(None, 10.0))
    assert decision.chosen is not None
    assert decision.chosen.choice.compute is SPLIT
    assert decision.reason == "the rate of device is not measured yet: the first inputs measure it"


def test_a_prediction_that_may_be_wrong_is_measured_before_it_counts() -> None:
    sure = job(1.0, 300.0, link=FAST_LINK)
    doubtful = replace(sure, device=SideFacts(SideRate(1.0, 1.5, RateBasis.PREDICTED)))
    assert taken(sure)[0] is SERVER
    assert taken(doubtful)[0] is SPLIT
    hopeless = replace(sure, device=SideFacts(SideRate(0.01, 1.0, RateBasis.PREDICTED)))
    assert taken(hopeless)[0] is SERVER


def test_when_splitting_cannot_help_it_says_so() -> None:
    assert decide(job(1.0, 306.0, link=FAST_LINK)).reason == "splitting cannot help: it would gain 0.33 %"


def test_nothing_is_possible_without_a_side() -> None:
    idle = SideFacts(refusal="no worker")
    decision = decide(job(device=idle, server=idle))
    assert decision.chosen is None
    assert decision.reason == "nothing is possible: the device cannot compute: no worker"


def test_people_and_programs_read_every_alternative() -> None:
    facts = job(1.0, 5.0, link=OffloadLink(10 * MB, 10 * MB), storage=Storage.DEVICE)
    decision = decide(facts)
    rows = list(explain_rows(decision))
    assert all(len(row) == len(HEAD) for row in rows)
    assert [row[0] for row in rows] == ["*", "", "", "", "", ""]
    assert len(rows) == len(CHOICES)
    assert next(iter(explain(decision))) == "compute on split, results on device: 20.0 % sooner than the next"
    document = to_json(decision)
    assert document["chosen"]["server_share"] == pytest.approx(5 / 6, rel=1e-3)
    assert document["chosen"]["limit"] in ("device", "server")
    assert [each["seconds"] for each in document["alternatives"]] == pytest.approx(
        [166.7, 200, 1000], rel=1e-3
    )
    assert list(explain_facts(facts))[2] == "link: 9.5 MiB/s up, 9.5 MiB/s down, 0.0 ms"
    assert list(explain_facts(job(None, link=None)))[::2] == ["device: rate not known", "link: none"]


@given(JOBS)
def test_what_is_chosen_is_never_behind_another(facts: OffloadFacts) -> None:
    decision = decide(facts)
    assert len(decision.alternatives) + len(decision.impossible) == len(CHOICES)
    if decision.chosen is None:
        assert not decision.alternatives
        return
    best = decision.alternatives[0]
    assert behind(decision.chosen, best, facts.objective) <= HELPS < Hysteresis().margin


@given(JOBS)
def test_a_split_is_never_later_than_one_side_alone(facts: OffloadFacts) -> None:
    facts = replace(_without_limits(facts), objective=OffloadObjective.TIME)
    for storage in Storage:
        found = [expect(OffloadChoice(compute, storage), facts) for compute in (SPLIT, DEVICE, SERVER)]
        if isinstance(found[0], Impossible):
            continue
        for other in found[1:]:
            if isinstance(other, ExpectedCost):
                least = cost(other, facts.objective)
                assert cost(found[0], facts.objective) <= least * (1 + 1e-6) + 1e-9


@given(JOBS)
def test_nothing_is_faster_than_all_rates_together(facts: OffloadFacts) -> None:
    device, server = facts.device.rate.per_s, facts.server.rate.per_s
    assert device is not None
    assert server is not None
    for each in decide(facts).alternatives:
        assert each.seconds is not None
        assert each.seconds >= facts.inputs / (device + server) * (1 - 1e-9)


@given(JOBS, st.floats(1, 100))
def test_a_faster_server_is_never_expected_later(facts: OffloadFacts, factor: float) -> None:
    facts = replace(_without_limits(facts), objective=OffloadObjective.TIME)
    rate = facts.server.rate.per_s
    assert rate is not None
    faster = replace(facts, server=replace(facts.server, rate=SideRate(rate * factor)))
    for choice in CHOICES:
        before, after = expect(choice, facts), expect(choice, faster)
        if isinstance(before, ExpectedCost) and isinstance(after, ExpectedCost):
            assert before.seconds is not None
            assert after.seconds is not None
            assert after.seconds <= before.seconds * (1 + 1e-6) + 1e-9


@given(JOBS, st.floats(0, 1))
def test_no_other_share_of_a_split_is_faster(facts: OffloadFacts, share: float) -> None:
    facts = replace(_without_limits(facts), objective=OffloadObjective.TIME)
    for storage in Storage:
        found = expect(OffloadChoice(SPLIT, storage), facts)
        if isinstance(found, ExpectedCost):
            assert found.seconds is not None
            assert found.seconds <= _seconds(facts, storage, share) * (1 + 1e-6) + 1e-9


@given(JOBS)
def test_what_is_taken_has_the_space_and_the_energy(facts: OffloadFacts) -> None:
    decision: PolicyDecision = decide(facts)
    chosen, results = decision.chosen, facts.inputs * facts.result_bytes
    if chosen is None:
        return
    if facts.device.free is not None and chosen.choice.storage is Storage.DEVICE:
        assert results <= facts.device.free
    if facts.server.free is not None:
        assert chosen.up <= facts.server.free
    if facts.device.energy is not None:
        assert chosen.joules <= facts.device.energy


def _without_limits(facts: OffloadFacts) -> OffloadFacts:
    sides = {
        name: replace(side, free=None, energy=None, refusal="")
        for name, side in (("device", facts.device), ("server", facts.server))
    }
    return replace(facts, **sides)  # type: ignore[arg-type]  # two fields of one kind


def _seconds(facts: OffloadFacts, storage: Storage, share: float) -> float:
    """Return the time of a split at a share: the formula again, in plain words."""
    count, link = facts.inputs, facts.link
    assert link is not None
    up = max(0.0, share - facts.stored) * facts.input_bytes
    down = max(0.0, 1 - share - facts.on_device) * facts.input_bytes
    if storage is Storage.SERVER:
        up += (1 - share) * facts.result_bytes
    else:
        down += share * facts.result_bytes
    times = [0.0]
    for part, side in ((1 - share, facts.device), (share, facts.server)):
        rate = side.rate.per_s or 0.0
        times.append(side.start_s + count * part / rate if count * part > 0 else 0.0)
    for amount, speed in ((up, link.up), (down, link.down)):
        if amount * count > 0:
            times.append(amount * count / max(speed, 1e-9) + link.round_trip_s)
    return max(times)
