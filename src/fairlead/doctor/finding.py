"""The result of a check: ok, or a fault with what to do about it."""

from collections.abc import Iterable, Sized
from dataclasses import dataclass
from typing import Any, Final

from fairlead.compat import StrEnum
from fairlead.units import pluralize

_MOST: Final = 4
"""Names in one sentence."""


class Severity(StrEnum):
    """The severity of a finding, the mildest first."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, with the check's name."""

    check: str
    verdict: Severity
    text: str
    """What the check found."""
    todo: str = ""
    """What to do about it; empty where there is nothing to do."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {"check": self.check, "verdict": self.verdict.value, "text": self.text, "todo": self.todo}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A finding without the name of its check."""

    verdict: Severity
    text: str
    todo: str = ""


def ok(text: str) -> CheckResult:
    """Return a result without a fault."""
    return CheckResult(Severity.OK, text)


def warn(text: str, todo: str) -> CheckResult:
    """Return a fault that does no harm yet."""
    return CheckResult(Severity.WARN, text, todo)


def fail(text: str, todo: str) -> CheckResult:
    """Return a fault that does harm now."""
    return CheckResult(Severity.FAIL, text, todo)


def worst(findings: Iterable[Finding]) -> Severity:
    """Return the worst verdict; `ok` where there are no findings."""
    order = list(Severity)
    return max((finding.verdict for finding in findings), key=order.index, default=Severity.OK)


def some(names: Iterable[str]) -> str:
    """Return a few names for a sentence: `a, b, c, d and 3 more`."""
    ordered = sorted(set(names))
    more = len(ordered) - _MOST
    return ", ".join(ordered[:_MOST]) + (f" and {more} more" if more > 0 else "")


def count(items: Sized, noun: str, plural: str = "") -> str:
    """Return a count with its noun: `1 claim`, `3 claims`."""
    return pluralize(len(items), noun, plural)
