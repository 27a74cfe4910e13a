"""Wrong figures fail: predictions are near published runs, and a factor of three in any table is found."""

import pytest

from fairlead.estimate.speeds import rows
from tests.catalogs import shipped
from tests.estimate.published import (
    FACTOR,
    PEAKS,
    RUNS,
    with_chips,
    with_peaks,
    with_times,
    wrong_peaks,
    wrong_runs,
)
from tests.latencies import SHEETS

THREE = (3.0, 1 / 3)
COVERED = {
    *("cpu", "gpu", "gpu NVIDIA", "npu", "npu ax650", "npu rknpu", "npu sophon", "tpu edge-tpu"),
    *("rk3588-npu", "rk3576-npu", "rk1808 rk1808-npu", "sophgo-bm1682 sophgo-bm1684"),
    "gpu nvidia-volta nvidia-turing nvidia-ampere",
    "gpu nvidia-ada nvidia-blackwell nvidia-rubin",
    "gpu NVIDIA tegra-k1 tegra-x1 tegra-x2 nvidia-kepler nvidia-maxwell nvidia-pascal",
    "gpu tegra-xavier tegra-orin tegra-thor",
    "npu rockchip-vip rk1808 amlogic-npu imx-npu stm32mp2-npu",
}
"""The rows of `speeds.toml` that published runs cover."""
FAMILIES = sorted(
    {shipped().devices[peak.device].family for peak in PEAKS if not peak.runtime}
    | {shipped().get(run.device.split("@")[0]).family for run in RUNS if not run.runtime}
)


def about(row: dict[str, object]) -> str:
    """Return what a row of `speeds.toml` is about."""
    names = [row.get("kind"), row.get("vendor"), *row.get("families", ()), *row.get("devices", ())]  # type: ignore[misc]
    return " ".join(str(name) for name in names if name)


PLACES = {about(dict(row)): place for place, row in enumerate(rows()) if about(dict(row)) in COVERED}


def test_published_runs_are_predicted() -> None:
    assert wrong_runs(shipped(), rows(), SHEETS) == []


def test_published_peaks_are_in_the_catalog() -> None:
    assert wrong_peaks(shipped(), SHEETS) == []


def test_every_covered_row_exists() -> None:
    assert set(PLACES) == COVERED
    assert FACTOR < 3


@pytest.mark.parametrize("factor", THREE)
@pytest.mark.parametrize("row", sorted(COVERED))
def test_a_factor_of_three_in_a_row_of_speeds_is_found(row: str, factor: float) -> None:
    assert wrong_runs(shipped(), with_times(rows(), PLACES[row], factor), SHEETS)


@pytest.mark.parametrize("factor", THREE)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_factor_of_three_in_the_peaks_of_a_family_is_found(family: str, factor: float) -> None:
    assert wrong_peaks(with_peaks(shipped(), family, factor), SHEETS)


@pytest.mark.parametrize("factor", THREE)
@pytest.mark.parametrize(
    ("section", "maker"),
    [
        *(("core", "cortex"), ("gpu", "mali"), ("gpu", "adreno"), ("gpu", "powervr"), ("gpu", "pixel")),
        *(("npu", name) for name in ("rk", "rv", "ax", "qcs", "snapdragon", "stm32", "khadas", "atlas")),
    ],
)
def test_a_factor_of_three_in_a_family_of_chips_is_found(section: str, maker: str, factor: float) -> None:
    sheets = with_chips(SHEETS, section, maker, factor)
    assert wrong_runs(shipped(), rows(), sheets) or wrong_peaks(shipped(), sheets)
