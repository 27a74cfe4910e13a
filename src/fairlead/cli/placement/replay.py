"""`fairlead replay`: replay a scheduler's recorded events, and compare the effects."""

import argparse
import json
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from fairlead import __version__
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Column, Fit
from fairlead.cli.output.terminal import show_error
from fairlead.cli.shell import options as shared
from fairlead.errors import RecordingError
from fairlead.units import pluralize

if TYPE_CHECKING:
    from fairlead.serve.machine.recording import RecordedEvent

_HEAD: Final = (
    Column("EVENT", Fit.KEEP),
    Column("SECONDS", Fit.KEEP),
    Column("HANDLED", Fit.KEEP),
    Column("EFFECT", Fit.KEEP),
    Column("REQUEST", Fit.PROSE),
)
_FIELDS: Final = ("event", "seconds", "handled", "effect", "request")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "replay",
        help="replay the events that a scheduler recorded, and compare the effects",
        description="Feed a recording of `fairlead serve scheduler --record FILE` to the scheduler's state "
        "machine, without a cluster. The exit code is 0 if every effect is as recorded, byte for byte, and 1 "
        "if one differs or the scheduler raises an error, as it may have done when it recorded.",
    )
    command.add_argument("recording", metavar="FILE", help="the recording")
    command.add_argument("--effects", action="store_true", help="list the events that had effects")
    command.add_argument("--until", metavar="N", type=int, help="stop after this event")
    command.add_argument("--debug", metavar="N", type=int, help="open Python's debugger before this event")
    shared.add_catalog(command)
    shared.add_output(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    try:
        with open(options.recording, "rb") as file:
            replay = _Replay(options, file)
            replay.run()
    except OSError as error:
        raise RecordingError(f"{options.recording}: {error.strerror}", "name a recording") from None
    if options.output != "table":
        show(replay.document(), options.output)
    else:
        replay.show()
    return 1 if replay.problem else 0


class _Replay:
    """One run through a recording."""

    def __init__(self, options: argparse.Namespace, file: BinaryIO) -> None:
        from fairlead.serve.scheduler.replay import open_recording

        self._options = options
        self._recording = open_recording(file, options.recording, shared.catalog_of(options))
        self._events = self._effects = 0
        self._rows: list[tuple[str, ...]] = []
        self.problem: dict[str, Any] = {}
        """The first difference, or the error; empty: every effect is as recorded."""

    def run(self) -> None:
        """Handle every event."""
        from fairlead.serve.machine.recording import encode_effects

        for recorded in self._events_until():
            self._events = recorded.number
            if recorded.number == self._options.debug:
                breakpoint()  # --debug asks for it: step into the next call
            try:
                effects = encode_effects(self._recording.machine.handle(recorded.event, recorded.now))
            except Exception as error:  # noqa: BLE001 - the scheduler's error is what a replay looks for
                self._record_exception(recorded, error)
                return
            self._record_effects(recorded, effects)
            if recorded.effects is not None and effects != recorded.effects:
                self._record_difference(recorded, effects)
                return

    def document(self) -> dict[str, Any]:
        """Return the result as a document."""
        return {
            "recording": self._options.recording,
            "recorded_by": self._recording.fairlead,
            "events": self._events,
            "effects": self._effects,
            "same": not self.problem,
            "problem": self.problem or None,
            **(
                {"listed": [dict(zip(_FIELDS, row, strict=True)) for row in self._rows]} if self._rows else {}
            ),
        }

    def show(self) -> None:
        """Print the result for people."""
        if self._options.effects:
            show_list(_HEAD, self._rows, "table", headers=True, color=self._options.color)
        head = f"{pluralize(self._events, 'event')}, {pluralize(self._effects, 'effect')}"
        print(f"{self._options.recording}: {head}, recorded by fairlead {self._recording.fairlead}")
        if not self.problem:
            print("every effect is as recorded")
            return
        if "traceback" in self.problem:
            print(self.problem["traceback"], end="")
        show_error(f"fairlead: {self.problem['message']}\n  {self.problem['hint']}")

    def _events_until(self) -> "Iterator[RecordedEvent]":
        for recorded in self._recording.events:
            if self._options.until is not None and recorded.number > self._options.until:
                return
            yield recorded

    def _record_effects(self, recorded: "RecordedEvent", effects: bytes) -> None:
        listed = json.loads(effects)["effects"]
        self._effects += len(listed)
        if self._options.effects:
            handled = type(recorded.event).__name__
            self._rows += [
                (
                    str(recorded.number),
                    f"{recorded.now:.3f}",
                    handled,
                    each["effect"],
                    _summary(each["fields"]),
                )
                for each in listed
            ]

    def _record_difference(self, recorded: "RecordedEvent", effects: bytes) -> None:
        assert recorded.effects is not None, "only recorded effects are compared"
        replayed, original = json.loads(effects)["effects"], json.loads(recorded.effects)["effects"]
        hint = f"replay it with the catalog and the fairlead ({self._recording.fairlead}) that recorded it"
        if self._recording.fairlead == __version__:
            hint = (
                "replay it with the scheduler's own catalog; if that differs too, it is a fault of fairlead"
            )
        self.problem = {
            "event": recorded.number,
            "message": f"event {recorded.number}: the effects differ from the recorded ones",
            "hint": hint,
            "recorded": original,
            "replayed": replayed,
        }

    def _record_exception(self, recorded: "RecordedEvent", error: Exception) -> None:
        also = "the recording ends here too" if recorded.effects is None else "the recording goes on"
        self.problem = {
            "event": recorded.number,
            "message": f"event {recorded.number}: {type(error).__name__}: {error}; {also}",
            "hint": f"inspect its state: fairlead replay --debug {recorded.number} {self._options.recording}",
            "traceback": "".join(traceback.format_exception(error)),
        }


def _summary(fields: dict[str, Any]) -> str:
    """Return an effect in one line."""
    if "path" in fields:
        return f"{fields['method']} {fields['path']}"
    return str(fields.get("line") or fields.get("seconds") or fields.get("kind", {}) or "")
