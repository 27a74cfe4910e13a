"""A finding: one sentence about a part of a Pipeline. Pure."""

from dataclasses import dataclass
from typing import Any

from fairlead.compat import StrEnum


class FindingSeverity(StrEnum):
    """How much a finding matters; the first are shown first."""

    ERROR = "error"
    """The Pipeline does not run as its spec says."""
    WARNING = "warning"
    """It runs, and loses frames, is slow, or soon will not run."""
    INFO = "info"


@dataclass(frozen=True, slots=True)
class PipelineFinding:
    """One sentence."""

    severity: FindingSeverity
    about: str
    """`spec`, `operator`, `pod`, `node`, `run`, `stage`, `edge` or `host`."""
    name: str
    """Of the part; empty: the Pipeline itself."""
    text: str

    def document(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {"severity": str(self.severity), "about": self.about, "name": self.name, "text": self.text}


@dataclass(frozen=True, slots=True)
class PipelineChange:
    """Something that a person can do, and that would help."""

    about: str
    name: str
    text: str

    def document(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {"about": self.about, "name": self.name, "text": self.text}


def by_severity(findings: list[PipelineFinding]) -> list[PipelineFinding]:
    """Return findings, the most important first; those of one severity keep their order."""
    order = list(FindingSeverity)
    return sorted(findings, key=lambda each: order.index(each.severity))
