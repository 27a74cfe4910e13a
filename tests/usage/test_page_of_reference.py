"""The reference page of measured use names every fault, state, metric and limit of the code."""

import re
from pathlib import Path

from fairlead.series import Staleness
from fairlead.usage import agents, answer, limits, prometheus
from fairlead.usage.dialects import DIALECTS
from fairlead.usage.metrics import families
from fairlead.usage.status import WORDS, UseStatus
from fairlead.use import UseFault

PAGE = (Path(__file__).parents[2] / "docs/reference/usage.md").read_text(encoding="utf-8")


def rows(head: str) -> list[str]:
    table = PAGE.split(f"| {head} |", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"(?m)^\| `([\w-]+)`", table)


def test_the_tables_are_complete() -> None:
    assert rows("fault") == [fault.value for fault in UseFault]
    assert rows("state") == [state.value for state in Staleness]
    assert rows("metric") == [family.name for family in families(UseStatus(age=0.0))]
    assert list(WORDS) == list(UseFault)
    names = {metric.name for dialect in DIALECTS for metric in dialect.metrics}
    assert not sorted(name for name in names if f"`{name}`" not in PAGE)


def test_the_limits_are_the_codes() -> None:
    most = limits.UseLimits()
    for text in (
        f"| refresh period | {limits.PERIOD:.0f} s;",
        f"| window of the history | {limits.WINDOW:.0f} s;",
        f"| devices and pods together | {most.keys:,} |",
        f"| points of one series | {most.points:,} |",
        f"| bytes of all points | {most.size >> 20} MiB;",
        f"| {prometheus.ANSWER_LIMIT >> 20} MiB, {answer.MAX_SERIES:,} series, "
        f"within {prometheus.SECONDS:.0f} s |",
        f"| {agents.PAGE_LIMIT >> 20} MiB, within {agents.SECONDS:.0f} s; {agents.AT_ONCE} agents at once",
        f"at most {most.fresh:.0f} s old",
        f"more than {most.future:.0f} s in the future",
    ):
        assert text in PAGE, text
