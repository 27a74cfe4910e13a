"""Draw the rate of every arrangement by that of the server alone, with what the paper reports as marks."""

from collections.abc import Mapping
from typing import Any

from fairlead.reproduce.augment.cases import DEVICE, LOADER
from fairlead.reproduce.augment.function import DOCUMENTS
from fairlead.reproduce.augment.published import BOTH_S, LOAD, SERVER_ALONE_S
from fairlead.reproduce.augment.split_cases import BOTH
from fairlead.reproduce.bars import Bar, BarGroup, bars


def svg(answer: Mapping[str, Any]) -> str:
    """Return one self-contained picture: a group for each job, a bar for each arrangement."""
    jobs = dict.fromkeys(row["job"] for row in answer["rows"])
    groups = [
        BarGroup(
            job,
            tuple(
                Bar(row["arrangement"], row["by_server"], published(row))
                for row in answer["rows"]
                if row["job"] == job
            ),
        )
        for job in jobs
    ]
    return bars("Rate by that of the server alone", groups, "x")


def published(row: Mapping[str, Any]) -> float | None:
    """Return what the paper has for an arrangement, by its server alone."""
    if row["job"] != DOCUMENTS:
        return None
    known = {LOADER: 1.0, DEVICE: 1 / LOAD.ratio, BOTH: SERVER_ALONE_S / BOTH_S}
    return known.get(row["arrangement"])
