"""Features: a profile, added up by the kinds of its operators."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.calibration import MeasuredRun, OperatorWork, better_run, features
from fairlead.zoo import BUILDERS
from tests.estimate.networks import network


@pytest.mark.parametrize("name", BUILDERS)
def test_features_add_up_to_the_whole_profile(name: str) -> None:
    profile = network(name)
    model = features(profile)
    works = model.work.values()
    assert sum(work.operators for work in works) == len(profile.operators)
    assert sum(work.macs for work in works) == profile.macs
    assert sum(work.weight_bytes for work in works) == profile.weight_bytes
    assert sum(work.kernels for work in works) == profile.groups == model.groups
    assert all(work.moved_bytes >= 0 for work in works)
    assert (model.digest, model.batch, model.peak_bytes) == (profile.digest, 1, profile.peak_bytes)


def test_a_kernel_counts_for_its_main_kind() -> None:
    work = features(network("resnet18")).work
    assert work["conv"].kernels == work["conv"].operators == 20
    assert work["norm"].kernels == 0


def test_input_and_output_bytes_are_counted() -> None:
    model = features(network("resnet18"))
    assert (model.input_bytes, model.output_bytes) == (3 * 224 * 224 * 4, 1000 * 4)


def test_bytes_of_exponentials_are_counted() -> None:
    smooth = {
        name: sum(work.smooth_bytes for work in features(network(name)).work.values()) for name in BUILDERS
    }
    assert smooth["resnet50"] == 0
    assert smooth["efficientnet_b0"] > 10e6
    assert smooth["vit_tiny"] > 0


def test_moved_bytes_exclude_weights() -> None:
    assert OperatorWork(read_bytes=30, written_bytes=12, weight_bytes=20).moved_bytes == 22


RUNS = st.builds(
    MeasuredRun,
    seconds=st.sampled_from((0.1, 0.2)),
    p90=st.just(0.3),
    runs=st.just(9),
    wall=st.just(0.3),
    waited=st.sampled_from((0.0, 0.1, 0.6, 0.9)),
    peak_bytes=st.sampled_from((1, 2)),
    base_bytes=st.none(),
    noise=st.sampled_from((None, 0.0, 0.01, 0.3)),
    made=st.sampled_from(("", "2026-01-01", "2026-02-01")),
)


@given(st.lists(RUNS, min_size=2, max_size=4))
def test_the_order_of_merging_runs_does_not_matter(runs: list[MeasuredRun]) -> None:
    forward, backward = reduce(better_run, runs), reduce(better_run, reversed(runs))
    assert (forward, forward.peak_bytes) == (backward, max(run.peak_bytes for run in runs))
    assert better_run(runs[0], better_run(forward, runs[-1])) == forward
