"""A round of federated training: its straggler, and the split after which no device waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.training.federated import Participant, federated_round, samples_that_end_together
from fairlead.units import Bytes, BytesPerSecond

LINK = BytesPerSecond(10e6)


def test_a_faster_device_gets_more_and_all_end_together() -> None:
    result = federated_round([("fast", 0.001), ("slow", 0.003)], 4000, 1, Bytes(10_000_000), LINK)
    assert [part.samples for part in result.parts] == [3000, 1000]
    assert result.seconds == pytest.approx(3 + 2)
    assert result.straggler == "slow"
    assert result.equal_seconds == pytest.approx(2000 * 0.003 + 2)


def test_epochs_lengthen_the_work_and_not_the_exchange() -> None:
    one, three = (
        federated_round([("a", 0.001)], 1000, epochs, Bytes(10_000_000), LINK).seconds for epochs in (1, 3)
    )
    assert [one, three] == pytest.approx([3.0, 5.0])


def test_a_device_that_cannot_help_gets_nothing() -> None:
    members = [Participant("near", 0.001, 0.1), Participant("far", 0.001, 60.0)]
    assert samples_that_end_together(members, 1000) == [1000, 0]


MEMBERS = st.lists(
    st.builds(Participant, st.just("d"), st.floats(1e-4, 1.0), st.floats(0.0, 5.0)), min_size=1, max_size=6
)


@given(MEMBERS, st.integers(1, 3000))
def test_no_move_of_a_sample_shortens_the_round(members: list[Participant], samples: int) -> None:
    shares = samples_that_end_together(members, samples)
    assert sum(shares) == samples
    ends = [member.round_seconds(share) for member, share in zip(members, shares, strict=True)]
    slowest = max(range(len(members)), key=ends.__getitem__)
    if shares[slowest] < 2:
        return
    for other, member in enumerate(members):
        if other != slowest and shares[other]:
            assert member.round_seconds(shares[other] + 1) >= ends[slowest] - 1e-9 - member.sample_seconds
