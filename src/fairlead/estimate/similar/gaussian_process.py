"""Carry residuals at observed models over to other models: Gaussian process regression, closed form.

The residuals of a prediction (its errors at the observed models) are modelled as a sum: a level, a pattern
that other devices show, a smooth function of the models, a tilt along the prediction itself, and noise.
The size of each term differs by device, so a grid of sizes is tried, and the evidence weighs every entry.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from fairlead.estimate.similar.traits import Array

_LEVEL = 10.0
"""The variance of the level: as good as unknown."""
_SIZES = tuple(
    product((0.3, 1.0, 3.0), (0.0, 0.005, 0.02, 0.08), (0.0, 0.01, 0.05), (0.001, 0.004, 0.016, 0.06))
)
"""Variances of pattern, smooth function, tilt and noise, of logarithms."""
_ABSENT = 3.0
"""A smooth function or a tilt is as likely to be absent as to have one of this number of sizes."""
_FREEDOM = 4.0
"""Degrees of freedom of the t distribution that outliers come from."""
_SAMPLE = 64
"""This number of models is enough to find the sizes."""


@dataclass(frozen=True, slots=True)
class GaussianProcessFit:
    """The terms that explain the residuals at observed models."""

    level: float
    pattern: Array
    """By observed model; another model multiplies it by its covariance of pattern with each."""
    smooth: Array
    """By observed model; another model multiplies it by the kernel."""
    tilt: float
    """Multiplied by the place of a model along the prediction."""
    held_out: Array
    """The errors of this fit at each observed model, predicted without its own value."""


def fit_residuals(errors: Array, pattern: Array, smooth: Array, tilt: Array) -> GaussianProcessFit:
    """Fit residuals by covariances of pattern and smooth function, and by places along the prediction."""
    if not len(errors):
        return GaussianProcessFit(0.0, errors, errors, 0.0, errors)
    mean = float(errors.mean())
    sizes, share, noise = _evidence(errors - mean, pattern, smooth, tilt)
    inverse = np.linalg.inv(_covariance(sizes, pattern, smooth, tilt, noise))
    parts = inverse @ (errors - mean)
    combined = share[:, None] * parts
    return GaussianProcessFit(
        level=mean + _LEVEL * float(combined.sum()),
        pattern=sizes[:, 0] @ combined,
        smooth=sizes[:, 1] @ combined,
        tilt=float(sizes[:, 2] @ (combined @ tilt)),
        held_out=share @ (parts / np.diagonal(inverse, axis1=1, axis2=2)),
    )


def _evidence(errors: Array, pattern: Array, smooth: Array, tilt: Array) -> tuple[Array, Array, Array]:
    """Return the sizes, the weight of each, and the noise of every model relative to the typical one."""
    sample = slice(0, _SAMPLE)
    sizes = np.array(_SIZES)
    noise = np.ones(len(errors))
    part = (pattern[sample, sample], smooth[sample, sample], tilt[sample])
    prior = _ABSENT ** (sizes[:, 1:3] == 0).sum(1)
    share = _posterior(errors[sample], _covariance(sizes, *part, noise[sample]), prior)[0]
    if len(errors) > _SAMPLE:  # one entry is then as good as all, and saves many large inverses
        return sizes[[np.argmax(share)]], np.ones(1), noise
    surprise = share @ _posterior(errors, _covariance(sizes, *part, noise), prior)[1]
    noise = np.maximum(1.0, (_FREEDOM + surprise) / (_FREEDOM + 1))
    return sizes, _posterior(errors, _covariance(sizes, *part, noise), prior)[0], noise


def _covariance(sizes: Array, pattern: Array, smooth: Array, tilt: Array, noise: Array) -> Array:
    one, two, three, four = sizes.T[:, :, None, None]
    total: Array = (
        one * pattern + two * smooth + three * np.outer(tilt, tilt) + four * np.diag(noise) + _LEVEL
    )
    return total


def _posterior(errors: Array, covariance: Array, prior: Array) -> tuple[Array, Array]:
    """Return the weight of each covariance by its evidence, and its squared standardised errors."""
    inverse = np.linalg.inv(covariance)
    parts = inverse @ errors
    evidence = -0.5 * (np.linalg.slogdet(covariance)[1] + parts @ errors)
    share = prior * np.exp(evidence - evidence.max())
    return share / share.sum(), parts**2 / np.diagonal(inverse, axis1=1, axis2=2)
