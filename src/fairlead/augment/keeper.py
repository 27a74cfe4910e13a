"""SessionKeeper: starts the programs of a session, and starts them again when they end."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from fairlead.augment.place import SessionPlace
from fairlead.augment.programs import SessionProgram
from fairlead.local.background.log import open_log

_LONGEST_PAUSE: Final = 30.0
_STEADY: Final = 60.0
"""Seconds after which a program that ran has not failed at its start."""
_STOP_SECONDS: Final = 10.0
_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG."""
_SIGTERM: Final = 15


@dataclass(slots=True)
class KeptProgram:
    """A program, and the process that runs it."""

    program: SessionProgram
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    failures: int = 0
    next_start: float = 0.0


@dataclass(slots=True)
class SessionKeeper:
    """The programs of one session; `step` starts those that are due."""

    place: SessionPlace
    programs: Sequence[SessionProgram]
    say: Callable[[str], None]
    start: "Callable[[SessionPlace, SessionProgram], subprocess.Popen[bytes]]"
    kept: list[KeptProgram] = field(init=False)

    def __post_init__(self) -> None:
        self.kept = [KeptProgram(program) for program in self.programs]

    def step(self, now: float) -> float | None:
        """Note which programs have ended, start those that are due; return when the next one is."""
        for each in self.kept:
            if each.process is not None and (code := each.process.poll()) is not None:
                self._note_end(each, code, now)
            if each.process is None and now >= each.next_start:
                each.process, each.started = self.start(self.place, each.program), now
        return min((each.next_start for each in self.kept if each.process is None), default=None)

    def update(self, programs: Sequence[SessionProgram], now: float) -> None:
        """Run programs by what they are now: one that has changed is ended, and started again by `step`."""
        known = {each.program.name: each for each in self.kept}
        for program in programs:
            kept = known.get(program.name)
            if kept is None or kept.program == program:
                continue
            kept.program, kept.next_start, kept.failures = program, now, 0
            if kept.process is not None:
                _end([kept.process])
                kept.process = None
            self.say(f"{program.name} has changed; it is started again")

    def stop(self) -> None:
        """End all programs."""
        _end([each.process for each in self.kept if each.process is not None])

    def _note_end(self, kept: KeptProgram, code: int, now: float) -> None:
        kept.process = None
        kept.failures = 0 if now - kept.started >= _STEADY else kept.failures + 1
        pause = min(2.0 ** (kept.failures - 1), _LONGEST_PAUSE) if kept.failures else 0.0
        kept.next_start = now + pause
        self.say(f"{kept.program.name} ended with {code}; it is started again in {pause:.0f} s")


def _end(processes: "Sequence[subprocess.Popen[bytes]]") -> None:
    """End processes, and wait until they have ended."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def start_program(place: SessionPlace, program: SessionProgram) -> "subprocess.Popen[bytes]":
    """Start a program with a log of its own; it ends with the process that started it."""
    log = open_log(place.path(f"{program.name}.log"))
    try:
        return subprocess.Popen(  # noqa: S603  # our own program, with arguments of our own
            [sys.executable, "-m", "fairlead", *program.words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            preexec_fn=_end_with_parent,  # noqa: PLW1509  # the keeper has one thread
        )
    finally:
        os.close(log)


def _end_with_parent() -> None:
    import ctypes  # noqa: PLC0415  # loaded before the first fork by the caller's own import

    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, _SIGTERM)
