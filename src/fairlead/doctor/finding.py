"""What a check found: well, or not, and then what to do."""

from collections.abc import Iterable, Sized
from dataclasses import dataclass
from typing import Any, Final

from fairlead.compat import StrEnum
from fairlead.units import counted

_MOST: Final = 4
"""Names in one sentence."""


class Severity(StrEnum):
    """How bad it is, the better first."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    verdict: Severity
    text: str
    """What is so."""
    todo: str = ""
    """What to do about it; empty where nothing is to be done."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {"check": self.check, "verdict": self.verdict.value, "text": self.text, "todo": self.todo}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A finding before it is known which check said it."""

    verdict: Severity
    text: str
    todo: str = ""


def ok(text: str) -> CheckResult:
    """Say that all is well."""
    return CheckResult(Severity.OK, text)


def warn(text: str, todo: str) -> CheckResult:
    """Say what works now, and will not always."""
    return CheckResult(Severity.WARN, text, todo)


def fail(text: str, todo: str) -> CheckResult:
    """Say what does not work."""
    return CheckResult(Severity.FAIL, text, todo)


def worst(findings: Iterable[Finding]) -> Severity:
    """Return the worst verdict; all is well where nothing was looked at."""
    order = list(Severity)
    return max((finding.verdict for finding in findings), key=order.index, default=Severity.OK)


def some(names: Iterable[str]) -> str:
    """Return a few names for a sentence: `a, b, c, d and 3 more`."""
    ordered = sorted(set(names))
    more = len(ordered) - _MOST
    return ", ".join(ordered[:_MOST]) + (f" and {more} more" if more > 0 else "")


def count(items: Sized, noun: str, plural: str = "") -> str:
    """Return how many, with the noun: `1 claim`, `3 claims`."""
    return counted(len(items), noun, plural)
