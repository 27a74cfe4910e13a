"""A stage that is a program: frames go to it while it takes more, and its answers come back in order."""

import sys
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.pipeline.frame import FrameError, FrameHeader, boottime
from fairlead.pipeline.programs.check import start_of
from fairlead.pipeline.programs.process import ProgramError, ProgramProcess
from fairlead.pipeline.programs.wire import (
    ControlKind,
    ProgramHello,
    ProgramMessage,
    error_text,
    message_views,
)
from fairlead.pipeline.spec import StageSpec
from fairlead.pipeline.work.runners import StageCounters, StageFaultError
from fairlead.pipeline.work.values import decode_values, encode_value

_FRAMES: Final = 8


class ProgramLostError(StageFaultError):
    """A program has ended, or what it sends makes no sense: it must be started again."""


@dataclass(frozen=True, slots=True)
class ProgramAnswer:
    """What a program has made of a frame."""

    header: FrameHeader
    value: Any = None
    """None: the frame goes no further."""
    fault: str = ""
    """Why it failed; empty: it did not."""


class ProgramRunner:
    """A program with the frames that it has not answered."""

    def __init__(self, stage: StageSpec, folder: str, inputs: int) -> None:
        """Start the program and exchange hellos; ProgramError."""
        self.stage = stage
        self.counters = StageCounters()
        self._program = ProgramProcess(stage.command, folder, self._log)
        most: int = stage.options.get("frames", _FRAMES)
        try:
            hello = self._program.greet(stage.name, inputs, most, start_of(stage))
            _check_ports(stage, hello)
        except ProgramError:
            self._program.end()
            raise
        self._most = min(most, hello.frames)
        self._unanswered: deque[FrameHeader] = deque()
        self._timed: FrameHeader | None = None
        self._since = 0.0
        self._loss: ProgramLostError | None = None

    @property
    def has_room(self) -> bool:
        """Whether the program takes another frame."""
        return len(self._unanswered) < self._most

    @property
    def oldest(self) -> FrameHeader | None:
        """The frame that is answered next."""
        return self._unanswered[0] if self._unanswered else None

    @property
    def since(self) -> float:
        """The time from which the oldest frame counts as worked on: the one before was passed on then."""
        if self.oldest is not self._timed:
            self._timed, self._since = self.oldest, boottime()
        return self._since

    def descriptors(self) -> tuple[list[int], list[int]]:
        """Return what a selector waits for: to be readable, and to be writable."""
        return [self._program.reading], [self._program.writing] if self._program.is_writing else []

    def offer(self, header: FrameHeader, values: list[Any]) -> ProgramAnswer | None:
        """Send a frame with one value for each input; return the answer for one that it does not take."""
        for value in values:
            if fault := self.stage.inputs.objection(value):
                return ProgramAnswer(header, fault=f"got {fault}: its input is {self.stage.inputs}")
        encoded = [encode_value(value) for value in values]
        parts = tuple(part for each, _ in encoded for part in each)
        arrays = [array for _, each in encoded for array in each]
        try:
            views = message_views(replace(header, parts=parts), arrays)
        except FrameError as error:
            return ProgramAnswer(header, fault=f"got what cannot be sent to its program: {error}")
        self._program.send(views)
        self._unanswered.append(header)
        self.counters.frames_in += 1
        return None

    def exchange(self) -> list[ProgramAnswer]:
        """Write and read what is possible now; ProgramLostError once the program must be started again."""
        if self._loss is not None:
            raise self._loss
        answers: list[ProgramAnswer] = []
        try:
            self._program.write()
            for message in self._program.read():
                answers.append(self._answer(message))
        except ProgramError as error:
            self._program.kill()
            self._loss = ProgramLostError(_with_hint(error))
            if not answers:
                raise self._loss from None
        return answers

    def close(self) -> None:
        """Let the program end."""
        self._program.end()

    def _answer(self, message: ProgramMessage) -> ProgramAnswer:
        got = message.header
        oldest = self.oldest
        if message.control is ControlKind.ERROR and oldest is None:
            raise ProgramError(f"its program says: {error_text(message)}")
        if message.control in (ControlKind.HELLO, ControlKind.END) or oldest is None:
            what = f"frame {got.sequence}" if message.control is None else message.control.name.lower()
            raise ProgramError(f"its program sent {what}, and no frame was unanswered")
        if message.control is None and (got.stream, got.sequence, got.epoch) != (
            oldest.stream,
            oldest.sequence,
            oldest.epoch,
        ):
            raise ProgramError(f"its program answered frame {got.sequence} before frame {oldest.sequence}")
        self.counters.process.observe(boottime() - self.since)
        self._unanswered.popleft()
        if message.control is ControlKind.ERROR:
            return ProgramAnswer(oldest, fault=f"its program says: {error_text(message)}")
        return self._value(oldest, message) if got.parts else ProgramAnswer(oldest)

    def _value(self, header: FrameHeader, message: ProgramMessage) -> ProgramAnswer:
        try:
            values = decode_values(message.header.parts, message.arrays)
        except FrameError as error:
            return ProgramAnswer(header, fault=f"its program sent {error}")
        if len(values) != 1:
            return ProgramAnswer(header, fault=f"its program sent {len(values)} values: it sends one")
        if fault := self.stage.outputs.objection(values[0]):
            return ProgramAnswer(header, fault=f"returned {fault}: its output is {self.stage.outputs}")
        self.counters.frames_out += 1
        return ProgramAnswer(header, values[0])

    def _log(self, line: str) -> None:
        sys.stderr.write(f"{self.stage.name}: {line}\n")
        sys.stderr.flush()


def _check_ports(stage: StageSpec, hello: ProgramHello) -> None:
    """Compare the ports with those of the check: the program may have changed since."""
    for name, ours, theirs in (
        ("input", stage.inputs, hello.inputs),
        ("output", stage.outputs, hello.outputs),
    ):
        if not ours.accepts(theirs):
            raise ProgramError(f"its program says that its {name} is {theirs}, and not {ours}")


def _with_hint(error: ProgramError) -> str:
    return f"{error}; {error.hint}" if error.hint else str(error)
