"""Record and replay the scheduler's state machine."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fairlead import __version__
from fairlead.cache.types import BUDGETS, CLAIMS, NODES, PODS, QUOTAS, RULES, SLICES, STORAGE
from fairlead.catalog import Catalog
from fairlead.cluster.http import codec
from fairlead.errors import RecordingError
from fairlead.serve.machine.events import Start, Stop, Tick
from fairlead.serve.machine.recording import EventTypes, RecordedEvent, Recorder, read_events, read_header
from fairlead.serve.scheduler.events import Announce, Cycle, Explain, Synced, UsageRefreshed
from fairlead.serve.scheduler.machine import SchedulerMachine
from fairlead.settings.scheduler import SchedulerSettings

EVENTS = EventTypes.of(
    (NODES, PODS, CLAIMS, SLICES, BUDGETS, QUOTAS, *RULES, *STORAGE),
    (Announce, Cycle, Explain, Start, Stop, Synced, Tick, UsageRefreshed),
)


def recorder(path: Path, settings: SchedulerSettings) -> Recorder:
    """Begin a recording of a scheduler with these settings."""
    header = {"program": "scheduler", "fairlead": __version__, "settings": settings}
    return Recorder.create(path, header)


@dataclass(frozen=True, slots=True)
class OpenedRecording:
    """An open recording: the machine as it was at the start, and the events that it handled."""

    fairlead: str
    """The version of fairlead that recorded it."""
    machine: SchedulerMachine
    events: Iterator[RecordedEvent]


def open_recording(file: BinaryIO, where: str, catalog: Catalog) -> OpenedRecording:
    """Open a recording; RecordingError where its header cannot be read."""
    lines = iter(file)
    header: dict[str, Any] = read_header(lines, where)
    try:
        settings = codec.from_document(SchedulerSettings, header["settings"])
    except (KeyError, TypeError, ValueError) as error:
        hint = "replay it with the version that recorded it"
        raise RecordingError(f"{where}: settings: {error}", hint) from None
    machine = SchedulerMachine(catalog, settings)
    return OpenedRecording(str(header.get("fairlead", "")), machine, read_events(lines, EVENTS, where))
