"""Draw the predicted latency of every network on every device, with published ones as marks."""

from collections.abc import Mapping
from typing import Any

from fairlead.reproduce.bars import Bar, BarGroup, bars


def svg(answer: Mapping[str, Any]) -> str:
    """Return one self-contained picture: a group for each network, a bar for each device."""
    groups = [
        BarGroup(
            row["network"],
            tuple(
                Bar(each["device"], _milliseconds(each["seconds"]), _milliseconds(each["published_seconds"]))
                for each in row["devices"]
            ),
        )
        for row in answer["networks"]
    ]
    return bars("Predicted latency of one input, ms", groups, "ms")


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds
