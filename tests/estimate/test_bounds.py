"""Estimates from few runs stay within reach of the roofline and of the most similar run."""

from dataclasses import replace

import pytest

from fairlead.calibration import features
from fairlead.estimate.amounts import amounts
from fairlead.estimate.bounds import DOUBT, HIGHEST, LOWEST, bounded
from fairlead.estimate.calibrated import CalibratedFit, fit
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.predict import estimate
from fairlead.estimate.query import Query
from fairlead.estimate.target import target
from fairlead.zoo import PACK
from tests.catalogs import shipped
from tests.estimate.networks import network
from tests.estimate.worlds import calibration, setup

FEW = ("plain", "points", "ladder")


def fitted(names: tuple[str, ...], wrong: float) -> CalibratedFit:
    """Return a fit of these models, with costs wrong by a factor."""
    result = fit(calibration(setup(), names=names), shipped())
    assert result is not None
    return replace(result, times=result.times * wrong)


@pytest.mark.parametrize("factor", [1e-4, 1.0, 1e4])
def test_a_wrong_cost_is_bounded(factor: float) -> None:
    work = amounts(features(network("mobilenet_v1"))).time
    own = fitted(FEW, factor)
    seconds = float(own.times @ work)
    roofline, runs = own.level * float(own.data_sheet_times @ work), own.seconds
    kept = bounded(own, work, seconds)
    assert LOWEST * min(roofline, runs.min()) <= kept <= HIGHEST * max(roofline, runs.max())
    assert (kept == seconds) == (factor == 1.0)


def test_enough_runs_need_no_bounds() -> None:
    own = fitted(tuple(PACK), 1e4)
    work = amounts(features(network("mobilenet_v1"))).time
    assert bounded(own, work, 1e6) == 1e6


def test_a_bounded_estimate_is_low_and_says_why() -> None:
    knowledge = Knowledge.of([calibration(setup(), names=FEW)], shipped())
    [own] = knowledge.fitted
    wrong = replace(own, times=own.times * 1e4, spread=0.01)
    world = replace(knowledge, fitted=(wrong,), by_device={"t4": (wrong,)})
    [result] = estimate(Query.of(network("resnet50"), "fp32"), [target("t4", shipped())], world)
    [plain] = estimate(Query.of(network("resnet50"), "fp32"), [target("t4", shipped())], knowledge)
    assert (result.confidence, result.doubt) == ("low", DOUBT)
    assert plain.doubt == ""
    assert result.seconds is not None
    assert plain.seconds is not None
    assert result.seconds < 100 * plain.seconds
