"""Arrangements in turn, their medians, and what the paper reports beside them."""

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fairlead.errors import LabError
from fairlead.reproduce.augment.cases import DEVICE, LOADER, SERVER, AugmentCase, ImageSet
from fairlead.reproduce.augment.experiment import _further_cases, row_of, run_cases
from fairlead.reproduce.augment.figures import JobRunFigures, RunBook
from fairlead.reproduce.augment.function import DOCUMENTS, IMAGES
from fairlead.reproduce.augment.overhead import POD, POD_AND_STORE, own_cost
from fairlead.reproduce.augment.plot import svg
from fairlead.reproduce.augment.published import CASES, CPU, GPU, LOAD
from fairlead.reproduce.augment.split_cases import THROUGH


def test_what_the_paper_reports_is_beyond_its_own_rates() -> None:
    assert LOAD.ratio == pytest.approx(7.25, abs=0.01)
    assert [round(100 * each.bound, 2) for each in CASES] == [2.72, 0.33, 13.79]
    assert [each.is_possible for each in (CPU, GPU, LOAD)] == [False, None, False]
    assert LOAD.reported_gain == pytest.approx(0.4175, abs=1e-4)
    # A device that explains it: 67.3 s for all means that it adds 1/67.3 - 1/95.4 a second.
    assert pytest.approx(692 / 3.0, rel=0.01) == 1 / (1 / 67.3 - 1 / 95.4)


def case(name: str, seconds: list[float], order: list[str], beside: str = LOADER) -> AugmentCase:
    left = iter(seconds)

    def run(book: RunBook) -> JobRunFigures:
        order.append(name)
        return JobRunFigures(10, next(left), cpu=1.0)

    return AugmentCase(DOCUMENTS, name, "", 1, run, beside, bound=0.138)


def test_cases_take_turns_and_medians_count() -> None:
    order: list[str] = []
    cases = [case(LOADER, [1.0, 2.0, 9.0], order), case(DEVICE, [20.0, 10.0, 11.0], order)]
    book = run_cases(cases, 3, lambda line: None)
    assert order == [LOADER, DEVICE, DEVICE, LOADER, LOADER, DEVICE]
    row = row_of(cases[1], book)
    assert (row["rate"], row["seconds"], row["by_server"]) == pytest.approx((10 / 11, 11.0, 2 / 11))
    assert (row["bound"], row["device_share"], row["cpu_s"]) == (0.138, None, 1.0)


def test_an_arrangement_whose_lab_fails_costs_itself_alone() -> None:
    order: list[str] = []

    def fail(book: RunBook) -> JobRunFigures:
        order.append("fails")
        raise LabError("the node is gone", "look at the disk")

    cases = [case(LOADER, [1.0, 2.0], order), AugmentCase(IMAGES, POD, "", 1, fail, SERVER)]
    book = run_cases(cases, 2, lambda line: None)
    assert order == [LOADER, "fails", LOADER]
    assert book.failures == {POD: "the node is gone (look at the disk)"}
    assert (IMAGES, POD) not in book.runs


def test_where_no_lab_can_run_it_is_missing_and_says_why() -> None:
    def further(images: ImageSet) -> AbstractContextManager[Any]:
        raise LabError("no lab can run here: real nodes need root")

    missing: dict[str, str] = {}
    with ExitStack() as stack:
        assert not _further_cases(stack, further, ImageSet(Path("/in"), ["a.ppm"], 9, True), missing)
    assert list(missing.values()) == ["the image job in pods: no lab can run here: real nodes need root"]


def image_row(name: str, rate: float) -> dict[str, Any]:
    return {"job": IMAGES, "arrangement": name, "rate": rate, "by_server": rate / 40}


@pytest.mark.parametrize(
    ("rates", "text"),
    [
        ({SERVER: 40.0}, ""),
        ({SERVER: 40.0, THROUGH: 39.0}, "1x bare (40/s), 0.975x through the store."),
        (
            {SERVER: 40.0, THROUGH: 39.0, POD: 39.8, POD_AND_STORE: 38.8},
            "1x bare (40/s), 0.995x in a pod, 0.975x through the store, "
            "0.97x in a pod and through the store.",
        ),
    ],
)
def test_the_cost_of_the_framework_is_stated_by_the_bare_rate(rates: dict[str, float], text: str) -> None:
    rows = [image_row(name, rate) for name, rate in rates.items()]
    rows.append({"job": DOCUMENTS, "arrangement": THROUGH, "rate": 5.0, "by_server": 0.5})
    assert own_cost(rows) == (f"The framework's own cost: {text}" if text else "")


def test_the_picture_has_a_bar_for_each_arrangement_and_the_published_ones_as_marks() -> None:
    rows = [
        {"job": DOCUMENTS, "arrangement": LOADER, "by_server": 1.0},
        {"job": DOCUMENTS, "arrangement": DEVICE, "by_server": 0.14},
        {"job": "images", "arrangement": "server, one core", "by_server": 1.0},
    ]
    space = "{http://www.w3.org/2000/svg}text"
    texts = [each.text for each in ElementTree.fromstring(svg({"rows": rows})).iter(space)]
    assert {DOCUMENTS, "images", LOADER, "0.14 (0.138)", "1 (1)", "1"} <= set(texts)
