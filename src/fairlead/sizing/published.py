"""Published rules that place by measured memory: how much free memory each grants on an accelerator.

Ferikoglou et al. (PARMA-DITAM 2021; the authors' scheduler, `cmd/scheduler/main.go`): `cbp`, `pp`, `cbp+pp`.
The letters CBP stand there for a gate on the coefficient of variation, without any correlation.
Kube-Knots (Thinakaran et al., IEEE CLUSTER 2019): `cbp-knots`, a gate on Spearman's correlation, then a
forecast. Res-Ag of both goes by requests. A rule returns the memory that it grants, or why it grants none.

Every lag and every least number of samples counts samples, as the authors' code does; their samples are one
second apart. Where samples are further apart, a rule looks further back and ahead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, sqrt
from typing import Final

from fairlead.series import Series, Staleness
from fairlead.units import Bytes

COV_LIMIT: Final = 0.5
"""`cbp`: free memory with a coefficient of variation below this is steady (`covThr`)."""
HARVEST_PERCENTILE: Final = 0.8
"""Memory beyond this percentile of the used memory counts as free (`resHarvPerc`; Kube-Knots: 80th)."""
LEAST_WINDOW: Final = 20.0
"""Seconds: the window starts at the last placement, and at least this long ago (`MIN_D`)."""
LEAST_SAMPLES: Final = 20
"""With fewer samples in the window the authors' scheduler does not place by measured memory."""
LAG: Final = 10
"""`pp`: the lag of the autocorrelation and of the pairs (`k`)."""
AUTOCORRELATION_LIMIT: Final = 0.35
"""`pp`: the free memory has a trend above this autocorrelation (`autocorThr`)."""
STEPS: Final = 1
"""`pp`: steps of one lag that the forecast goes ahead (`steps`)."""
STALE_AFTER: Final = 60.0
"""Seconds after which the last sample is stale: ours, for the published rules have no such limit."""
KNOTS_WINDOW: Final = 5.0
"""Seconds of the sliding window of Kube-Knots (d)."""
CORRELATION_LIMIT: Final = 0.5
"""Kube-Knots places a pod beside a node's load where Spearman's rho is below this."""
KNOTS_LAG: Final = 1
"""Kube-Knots names no lag for its first-order model: that of the model."""
KNOTS_AUTOCORRELATION: Final = 0.0
"""Kube-Knots: a trend is any autocorrelation above this."""
KNOTS_AHEAD: Final = 1.0
"""Seconds that the forecast of Kube-Knots goes ahead."""


@dataclass(frozen=True, slots=True)
class MeasuredFree:
    """The answer of a rule about one accelerator."""

    memory: Bytes | None
    """The free memory that the rule grants; None: it grants none, and requests decide."""
    rule: str
    """The rule that granted it: `cbp`, `pp`, `cbp-knots`; of a refusal, the policy."""
    reason: str
    """For people: the figures behind the answer."""


# Statistics


def coefficient_of_variation(values: Sequence[float]) -> float | None:
    """Return the standard deviation over the mean; None: no values, or a mean of 0 or less.

    The deviation is that of a whole population: the authors divide by n.
    """
    if not values or (mean := sum(values) / len(values)) <= 0:
        return None
    return sqrt(sum((value - mean) ** 2 for value in values) / len(values)) / mean


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value at index floor(n * part) of the sorted values, without interpolation.

    This is the index of the authors' code; the last value where it would be beyond the end.
    """
    ordered = sorted(values)
    return ordered[min(floor(len(ordered) * part), len(ordered) - 1)]


def ranks_of(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 1; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, start = [0.0] * len(values), 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for at in order[start:end]:
            ranks[at] = (start + 1 + end) / 2
        start = end
    return ranks


def spearman(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Return Spearman's rho by the paper's formula, 1 - 6 * sum(d^2) / (n * (n^2 - 1)); None: n < 2.

    The formula is exact without ties. Ties make it larger than the correlation of the ranks: two constants
    get 1, and a constant beside any series without ties gets 1/2. With the limit of 1/2 a constant series
    therefore never passes as uncorrelated.
    """
    count = len(left)
    if count < 2:
        return None
    squares = sum((a - b) ** 2 for a, b in zip(ranks_of(left), ranks_of(right), strict=True))
    return 1.0 - 6.0 * squares / (count * (count * count - 1))


def autocorrelation(values: Sequence[float], lag: int) -> float | None:
    """Return r_k = sum_{i <= n-k} (Y_i - mean)(Y_{i+k} - mean) / sum (Y_i - mean)^2; None: no variance."""
    if not values or min(values) == max(values):
        return None
    mean = sum(values) / len(values)
    apart = [value - mean for value in values]
    total = sum(value * value for value in apart)
    return sum(first * later for first, later in zip(apart, apart[lag:], strict=False)) / total


def autoregression(values: Sequence[float], lag: int) -> tuple[float, float] | None:
    """Return (mu, phi) of Y_{t+lag} = mu + phi * Y_t by least squares on all such pairs; None: no fit."""
    xs, ys = values[: len(values) - lag], values[lag:]
    if not xs or min(xs) == max(xs):
        return None
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    phi = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    return mean_y - phi * mean_x, phi


def forecast(values: Sequence[float], lag: int, steps: int) -> float | None:
    """Return the value that the autoregression expects `steps` lags after the last one; None: no fit."""
    fit = autoregression(values, lag)
    if fit is None:
        return None
    mu, phi = fit
    value = values[-1]
    for _ in range(steps):
        value = mu + phi * value
    return value


# Rules


def measured_free(policy: str, total: Bytes, used: Series, placed_at: float, now: float) -> MeasuredFree:
    """Return the free memory that a policy grants on an accelerator with this much memory in all.

    `used` is the used memory of the whole accelerator; `placed_at` the time of the last placement there.
    """
    rule = RULES.get(policy)
    if rule is None:
        return MeasuredFree(None, policy, f"{policy} goes by requests")
    state = used.staleness(now, STALE_AFTER)
    if state is Staleness.MISSING:
        return MeasuredFree(None, policy, "there is no measurement of its memory")
    if state is Staleness.STALE:
        text = f"the last measurement is {used.age(now):.0f} s old, more than {STALE_AFTER:.0f} s"
        return MeasuredFree(None, policy, text)
    return rule(total, used, placed_at, now)


def harvested_free(total: Bytes, used: Series, placed_at: float, now: float) -> MeasuredFree:
    """Grant by Ferikoglou's CBP: all but the 80th percentile of used memory, if free memory is steady."""
    window = authors_window(used, placed_at, now)
    if too_few := _too_few(window, LEAST_SAMPLES):
        return MeasuredFree(None, "cbp", too_few)
    variation = coefficient_of_variation([total - value for value in window.values])
    if variation is None:
        return MeasuredFree(None, "cbp", "no memory was free")
    if variation >= COV_LIMIT:
        text = f"free memory is unsteady: coefficient of variation {variation:.3g}, not below {COV_LIMIT}"
        return MeasuredFree(None, "cbp", text)
    text = f"free memory is steady: coefficient of variation {variation:.3g}, below {COV_LIMIT}"
    return _granted("cbp", total - percentile(window.values, HARVEST_PERCENTILE), text)


def forecast_free(total: Bytes, used: Series, placed_at: float, now: float) -> MeasuredFree:
    """Grant by Ferikoglou's PP: the free memory that is forecast, if free memory has a trend."""
    window = authors_window(used, placed_at, now)
    if too_few := _too_few(window, LEAST_SAMPLES):
        return MeasuredFree(None, "pp", too_few)
    free = [total - value for value in window.values]
    return _forecast("pp", free, LAG, AUTOCORRELATION_LIMIT, STEPS)


def harvested_or_forecast_free(total: Bytes, used: Series, placed_at: float, now: float) -> MeasuredFree:
    """Grant by CBP, then by PP: the authors place a pod that either of them has room for."""
    both = [rule(total, used, placed_at, now) for rule in (harvested_free, forecast_free)]
    granted = [answer for answer in both if answer.memory is not None]
    if granted:
        return max(granted, key=lambda answer: answer.memory or 0)
    reasons = dict.fromkeys(answer.reason for answer in both)
    return MeasuredFree(None, "cbp+pp", "; ".join(reasons))


def knots_harvested_free(total: Bytes, used: Series, placed_at: float, now: float) -> MeasuredFree:
    """Grant by Kube-Knots' CBP: all but the 80th percentile of the memory used in the last 5 s.

    The paper resizes each batch pod to the 80th percentile of its memory; on the series of an accelerator
    that is the percentile of their sum. The gate is `correlated`, which needs a pod's series.
    """
    window = used.since(now - KNOTS_WINDOW)
    if too_few := _too_few(window, 1):
        return MeasuredFree(None, "cbp-knots", too_few)
    free = total - percentile(window.values, HARVEST_PERCENTILE)
    return _granted("cbp-knots", free, f"{len(window)} samples of the last {KNOTS_WINDOW:g} s")


def knots_forecast_free(total: Bytes, used: Series, now: float) -> MeasuredFree:
    """Grant by Kube-Knots' PP: the free memory that is forecast for one second ahead, if there is a trend."""
    window = used.since(now - KNOTS_WINDOW)
    if too_few := _too_few(window, 3):  # two pairs are the least that a line can be fitted to
        return MeasuredFree(None, "pp", too_few)
    apart = (window.times[-1] - window.times[0]) / (len(window) - 1)
    free = [total - value for value in window.values]
    return _forecast("pp", free, KNOTS_LAG, KNOTS_AUTOCORRELATION, _steps_ahead(apart))


def correlates(pod: Series, node: Series) -> bool:
    """Return whether two series rise and fall together, by Kube-Knots: Spearman's rho is not below 0.5.

    The pod's series comes from an earlier run of its image, so samples are paired from the last one
    backwards. With fewer than two pairs nothing is known, and the answer is no.
    """
    count = min(len(pod), len(node))
    rho = spearman(pod.values[len(pod) - count :], node.values[len(node) - count :])
    return rho is not None and rho >= CORRELATION_LIMIT


def knots_refusal(
    pod: Mapping[str, Series], node: Mapping[str, Series], total: Bytes, size: Bytes, now: float
) -> str:
    """Return why Kube-Knots does not place a pod of that size on an accelerator; empty: it may.

    Both map a measure (`memory`, `busy`, `bandwidth`) to its series; one that either lacks is not compared.
    A pod that correlates in any of them is placed only where PP forecasts enough free memory.
    """
    windows = {measure: series.since(now - KNOTS_WINDOW) for measure, series in node.items()}
    together = [name for name in sorted(windows.keys() & pod.keys()) if correlates(pod[name], windows[name])]
    if not together:
        return ""
    expected = knots_forecast_free(total, node.get("memory", Series()), now)
    if expected.memory is not None and expected.memory >= size:
        return ""
    return f"{' and '.join(together)} of the accelerator and of the pod correlate; PP: {expected.reason}"


def authors_window(used: Series, placed_at: float, now: float) -> Series:
    """Return the samples since the last placement, and of at least the last 20 s.

    Within 20 s of a placement the window reaches back before it, as in the authors' code.
    """
    return used.since(min(placed_at, now - LEAST_WINDOW))


def _too_few(window: Series, least: int) -> str:
    return f"{len(window)} samples, at least {least} needed" if len(window) < least else ""


def _forecast(rule: str, free: Sequence[float], lag: int, limit: float, steps: int) -> MeasuredFree:
    trend = autocorrelation(free, lag)
    if trend is None:
        return MeasuredFree(None, rule, "free memory is constant: there is no trend")
    if trend <= limit:
        return MeasuredFree(None, rule, f"no trend: autocorrelation {trend:.3g}, not above {limit:g}")
    expected = forecast(free, lag, steps)
    if expected is None or not isfinite(expected):
        return MeasuredFree(None, rule, "no line fits the free memory")
    return _granted(rule, expected, f"forecast with autocorrelation {trend:.3g}, above {limit:g}")


def _granted(rule: str, memory: float, text: str) -> MeasuredFree:
    """Return a grant; of a negative forecast, nothing."""
    return MeasuredFree(Bytes(max(0, int(memory))), rule, text)


def _steps_ahead(apart: float) -> int:
    """Return how many samples are one second ahead; at least the next one, at most a thousand."""
    return max(1, min(1000, ceil(KNOTS_AHEAD / apart))) if apart > 0 else 1


RULES: Final = {
    "cbp": harvested_free,
    "pp": forecast_free,
    "cbp+pp": harvested_or_forecast_free,
    "cbp-knots": knots_harvested_free,
}
"""The policies that grant more than requests leave, by name."""
