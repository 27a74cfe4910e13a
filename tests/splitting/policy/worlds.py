"""Jobs and sides for tests of the policy, and how Hypothesis draws them."""

from hypothesis import strategies as st

from fairlead.splitting.policy.facts import OffloadFacts, OffloadLink, OffloadObjective, SideFacts, Storage
from fairlead.splitting.policy.rates import SideRate
from fairlead.units import Bytes

MB = 1e6


def job(
    device: float | SideFacts | None = 1.0, server: float | SideFacts | None = 10.0, **changes: object
) -> OffloadFacts:
    """Return a job of 1,000 inputs of 200 kB that the device has, over a link of 10 MB/s."""
    sides = [each if isinstance(each, SideFacts) else SideFacts(SideRate(each)) for each in (device, server)]
    facts = {
        "inputs": 1000.0,
        "device": sides[0],
        "server": sides[1],
        "link": OffloadLink(10 * MB, 10 * MB, 0.002),
        "input_bytes": 200e3,
        "result_bytes": 2e3,
    }
    return OffloadFacts(**{**facts, **changes})  # type: ignore[arg-type]  # a table of fields


RATES = st.floats(0.01, 1e4)
SIDES = st.builds(
    SideFacts,
    rate=st.builds(SideRate, RATES),
    start_s=st.sampled_from([0.0, 0.5, 20.0]),
    free=st.sampled_from([None, Bytes(10**6), Bytes(10**9)]),
    busy_watts=st.sampled_from([0.0, 6.0]),
    idle_watts=st.sampled_from([0.0, 2.0]),
    energy=st.sampled_from([None, 500.0]),
    refusal=st.sampled_from(["", "", "", "no worker"]),
)
LINKS = st.one_of(
    st.none(),
    st.builds(OffloadLink, up=st.floats(0, 1e8), down=st.floats(0, 1e8), round_trip_s=st.floats(0, 0.2)),
)
JOBS = st.builds(
    OffloadFacts,
    inputs=st.floats(0, 1e5),
    device=SIDES,
    server=SIDES,
    link=LINKS,
    input_bytes=st.floats(0, 1e6),
    result_bytes=st.floats(0, 1e5),
    on_device=st.floats(0, 1),
    stored=st.floats(0, 1),
    storage=st.sampled_from([None, None, *Storage]),
    objective=st.sampled_from(OffloadObjective),
)
