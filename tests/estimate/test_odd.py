"""Whatever a readable profile holds, predictions are finite."""

from math import isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.calibration import Calibration, Features, MeasuredRun, OperatorWork, Setup, Trial
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.predict import estimate
from fairlead.estimate.query import Query
from fairlead.estimate.target import targets
from fairlead.units import Bytes, Seconds, Watts
from fairlead.workload import KINDS
from tests.catalogs import shipped
from tests.estimate.networks import network

COUNTS = st.integers(0, 2**62)
WORK = st.builds(OperatorWork, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
FEATURES = st.builds(
    Features,
    digest=st.sampled_from(["a", "b", network("plain").digest]),
    batch=st.integers(0, 2**62),
    groups=COUNTS,
    peak_bytes=COUNTS.map(Bytes),
    work=st.dictionaries(st.sampled_from(KINDS), WORK, max_size=4),
    input_bytes=COUNTS.map(Bytes),
    output_bytes=COUNTS.map(Bytes),
)
SECONDS = st.floats(1e-300, 9e8).map(Seconds)
AMOUNTS = st.none() | st.sampled_from([0.0, 1e-300, 8e12, 1e308])
SETUPS = st.builds(
    Setup,
    device=st.sampled_from(["t4", "cpu-x86-64-avx2", "coral-usb", "nothing"]),
    runtime=st.sampled_from(["onnxruntime-cuda", "", "nothing"]),
    version=st.just("1"),
    precision=st.sampled_from(["fp32", "int8", "nothing"]),
    threads=st.integers(0, 2**40),
    effective_ops=AMOUNTS,
    link_bits_per_second=AMOUNTS,
    power=st.none() | st.sampled_from([0.0, 70.0, 1e300]).map(Watts),
)
MEASURED = st.builds(
    MeasuredRun,
    seconds=SECONDS,
    p90=SECONDS,
    runs=COUNTS,
    wall=SECONDS,
    waited=st.floats(0, 1e300),
    peak_bytes=COUNTS.map(Bytes),
    base_bytes=st.none(),
    watts=st.none() | st.floats(0, 1e300).map(Watts),
)
TRIALS = st.lists(st.builds(Trial, st.just("m"), FEATURES, st.none() | MEASURED), max_size=6)
DEVICES = targets(["t4,l4,coral-usb,cpu-x86-64-avx2,jetson-nano,mi300x,t4@1/2"], shipped())


@settings(deadline=None, max_examples=60)
@pytest.mark.filterwarnings("error")
@given(TRIALS, SETUPS)
def test_predictions_from_any_profile_are_finite(trials: list[Trial], where: Setup) -> None:
    known = Knowledge.of([Calibration(where, "a host", "", tuple(trials))], shipped())
    for name in ("plain", "resnet50"):
        for each in estimate(Query.of(network(name)), DEVICES, known):
            figures = (each.seconds, each.p90, each.memory, each.watts, each.joules)
            assert all(isfinite(figure) and figure >= 0 for figure in figures if figure is not None)
            assert (each.seconds is not None and each.seconds > 0) == bool(each.runs)
            assert each.runs or each.reasons
