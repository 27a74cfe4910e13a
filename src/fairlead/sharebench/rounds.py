"""Several rounds of the same arrangements as one row for each: medians, and what went worst; pure."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median, median_low
from typing import Any


def medians(rounds: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each arrangement: the median makespan, its round, and the worst of all rounds.

    Of an even number of rounds, the faster one of the two in the middle stands for the rest of the row.

    Makespans of all rounds are listed. Failures are those of all rounds, an output that differs once differs,
    and slowdowns are the largest measured ones.
    """
    by_arrangement: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rounds:
        by_arrangement.setdefault((row["mode"], row["limiter"]), []).append(row)
    return [_median(sorted(rows, key=lambda row: int(row["round"]))) for rows in by_arrangement.values()]


def _median(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    makespans = [row["makespan_s"] for row in rows]
    middle = rows[makespans.index(median_low(makespans))]
    return {
        **{key: value for key, value in middle.items() if key != "round"},
        "makespan_s": round(median(makespans), 3),
        "makespans_s": makespans,
        "failures": [failure for row in rows for failure in row["failures"]],
        "outputs_equal": _all_equal([row["outputs_equal"] for row in rows]),
        "slowdown": _worst([row["slowdown"] for row in rows]),
    }


def _all_equal(values: Sequence[bool | None]) -> bool | None:
    known = [value for value in values if value is not None]
    return all(known) if known else None


def _worst(slowdowns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the slowdowns of the round in which the fewest engines kept their prediction."""
    return dict(
        min(
            slowdowns,
            key=lambda each: (each["engines_within"] - each["engines"], -(each["measured_worst"] or 0.0)),
        )
    )
