"""RunRecord: how far a run has come, and the text that keeps it."""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.compat import StrEnum
from fairlead.formats import JSON, Codec, VersionedFormat
from fairlead.pipeline.progress import Position
from fairlead.pipeline.spec import PipelineSpec, StageSpec

_STAGE: Final = "stage "
_EDGES: Final = "edges"
_SOURCES: Final = "order of the sources"
_DIGITS: Final = 16


class RunPhase(StrEnum):
    """How far a run has come, in a word."""

    OPENING = "opening"
    """Its stages are being opened: no frame was read, and sinks may still hold what an earlier run wrote."""
    RUNNING = "running"
    """Every stage is open, and frames are or were on their way."""
    DONE = "done"
    """Its sources have ended, and every frame has passed."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run has to know to go on after its coordinator ended."""

    run: str
    """The name of the run between hosts: the same for each coordinator that goes on with it."""
    attempt: int
    """Which coordinator of the run it is; hosts end what they have of an earlier one."""
    boot: str
    """The boot of the machine: what processes wrote is certain to be there in the same boot only."""
    parts: Mapping[str, str]
    """Digests of what must not change: by stage, and of the edges."""
    phase: RunPhase = RunPhase.OPENING
    starts: Mapping[int, int] = field(default_factory=dict)
    """By stream: the frame with which a replay begins; of a live source the number that comes next."""
    positions: Mapping[str, Mapping[int, Position]] = field(default_factory=dict)
    """By sink and stream: the last frame that it has taken."""
    states: Mapping[tuple[str, int], bytes] = field(default_factory=dict)
    """By stage and stream: the checkpoint before frame `starts`, or the latest if nothing is replayed."""


def fingerprint(spec: PipelineSpec) -> dict[str, str]:
    """Return digests of what a run depends on: what may change, as `on_error` or `replicas`, is left out."""
    parts = {f"{_STAGE}{stage.name}": _digest(_identity(stage)) for stage in spec.stages}
    edges = sorted((edge.source, edge.target) for edge in spec.edges)
    sources = [stage.name for stage in spec.sources]
    return parts | {_EDGES: _digest(edges), _SOURCES: _digest(sources)}


def difference(old: Mapping[str, str], new: Mapping[str, str], free: Collection[str] = frozenset()) -> str:
    """Return in words what has changed first; empty: nothing has. `free` stages may have other settings."""
    for part in [*new, *old]:
        if part not in old:
            return f"{part} is new"
        if part not in new:
            return f"{part} is gone"
    kept = [part for part in new if part.removeprefix(_STAGE) not in free]
    changed = next((part for part in kept if new[part] != old[part]), "")
    return f"{changed} {'have' if changed == _EDGES else 'has'} changed" if changed else ""


def _identity(stage: StageSpec) -> list[Any]:
    return [stage.role, stage.target, stage.options, stage.command, stage.ordered, stage.on]


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _encode(record: RunRecord) -> dict[str, Any]:
    return {
        "run": record.run,
        "attempt": record.attempt,
        "boot": record.boot,
        "phase": str(record.phase),
        "parts": dict(record.parts),
        "starts": {str(stream): number for stream, number in record.starts.items()},
        "positions": {
            sink: {str(stream): list(at) for stream, at in taken.items()}
            for sink, taken in record.positions.items()
        },
        "states": [
            {"stage": stage, "stream": stream, "state": b64encode(state).decode("ascii")}
            for (stage, stream), state in record.states.items()
        ],
    }


def _decode(body: Any) -> RunRecord:
    return RunRecord(
        run=str(body["run"]),
        attempt=int(body["attempt"]),
        boot=str(body["boot"]),
        parts={str(part): str(digest) for part, digest in body["parts"].items()},
        phase=RunPhase(body["phase"]),
        starts={int(stream): int(number) for stream, number in body["starts"].items()},
        positions={
            str(sink): {int(stream): (int(at[0]), int(at[1])) for stream, at in taken.items()}
            for sink, taken in body["positions"].items()
        },
        states={
            (str(each["stage"]), int(each["stream"])): b64decode(each["state"], validate=True)
            for each in body["states"]
        },
    )


RECORDS: Final[VersionedFormat[RunRecord]] = VersionedFormat(
    "pipeline-progress", JSON, {1: Codec(_encode, _decode)}
)
