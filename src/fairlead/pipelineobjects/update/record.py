"""How far an update of a run has come, as it is kept beside the file that it changes. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final

from fairlead.compat import StrEnum
from fairlead.compat.times import UTC, parse_iso
from fairlead.errors import NewerFormatError
from fairlead.formats import JSON, Codec, VersionedFormat
from fairlead.pipelineobjects.update.run_status import RunCounts
from fairlead.pipelineobjects.update.verdict import RunWindow
from fairlead.reconcile import Manifest


class UpdatePhase(StrEnum):
    """What an update waits for."""

    NONE = ""
    MEASURING = "measuring"
    """The run is counted as it is, while new pods start."""
    SWITCHING = "switching"
    """The file is written; the run must carry it out."""
    TRYING = "trying"
    """The file has a canary; the run must begin it."""
    COMPARING = "comparing"
    """The canary runs, and is compared with the old version."""
    LEAVING = "leaving"
    """The file has no canary any more; the run must end it."""
    OBSERVING = "observing"
    """The run has carried it out, and is compared with before."""


@dataclass(frozen=True, slots=True)
class UpdateRecord:
    """One update; by default none."""

    phase: UpdatePhase = UpdatePhase.NONE
    since: datetime | None = None
    """When the phase began."""
    moved: tuple[str, ...] = ()
    """The stages that get other processes."""
    text: str = ""
    """What moves where, and why."""
    previous: Manifest | None = None
    """The spec to go back to; None: the update is not rolled back."""
    starts: int = 0
    """How often the coordinator's container had been started when the file was written."""
    begin: RunCounts | None = None
    """What the run had counted when it began to be measured or observed."""
    before: RunWindow | None = None
    """What it did before the update."""
    refused: str = ""
    """The digest of a target that was rolled back, and is not tried again; empty: none."""
    reason: str = ""
    """By what the run was worse."""
    target: str = ""
    """The digest of the target that a canary tries."""
    tried: str = ""
    """The digest of a target that had no canary in the end, and is updated to without; empty: none."""
    warm: Manifest | None = None
    """By stage and version: what was counted once the first calls of a canary were over; None: not yet."""

    def settled(self) -> "UpdateRecord":
        """Return the record once nothing is left to be done; what was rolled back stays so."""
        return UpdateRecord(refused=self.refused, reason=self.reason, tried=self.tried)

    def begins(self, phase: UpdatePhase, now: datetime, **fields: Any) -> "UpdateRecord":
        """Return the record at the beginning of a phase."""
        return replace(self, phase=phase, since=now, **fields)


def _encode(record: UpdateRecord) -> dict[str, Any]:
    body = {key: value for key, value in asdict(record).items() if value not in ("", None, 0, ())}
    if record.since is not None:
        body["since"] = record.since.astimezone(UTC).isoformat()
    return {**body, "phase": str(record.phase)}


def _decode(body: Mapping[str, Any]) -> UpdateRecord:
    return UpdateRecord(
        UpdatePhase(body["phase"]),
        parse_iso(body["since"]) if "since" in body else None,
        tuple(map(str, body.get("moved") or ())),
        str(body.get("text") or ""),
        dict(body["previous"]) if "previous" in body else None,
        int(body.get("starts") or 0),
        RunCounts(**body["begin"]) if "begin" in body else None,
        RunWindow(**body["before"]) if "before" in body else None,
        str(body.get("refused") or ""),
        str(body.get("reason") or ""),
        str(body.get("target") or ""),
        str(body.get("tried") or ""),
        dict(body["warm"]) if "warm" in body else None,
    )


UPDATES: Final[VersionedFormat[UpdateRecord]] = VersionedFormat(
    "pipeline-update", JSON, {1: Codec(_encode, _decode)}
)


def read_record(text: str) -> UpdateRecord:
    """Return a stored record; one that cannot be read, also a newer one, counts as none."""
    try:
        return UPDATES.decode(text)
    except (NewerFormatError, ValueError):
        return UpdateRecord()
