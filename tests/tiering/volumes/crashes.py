"""A move that is killed at a chosen line, after a program did something at another one."""

import os
import signal
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

from fairlead.tiering.volumes.moves import FileMover

_OURS = f"{os.sep}fairlead{os.sep}tiering{os.sep}volumes{os.sep}"


class Lines:
    """Counts the lines of the mover that run, and acts at some of them."""

    def __init__(self, acts: dict[int, Callable[[], None]]) -> None:
        self.count = 0
        self._acts = acts
        self._busy = False

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Follow the functions of the mover."""
        del arg
        if _OURS not in frame.f_code.co_filename:
            return None
        if event == "line" and not self._busy:
            self.count += 1
            act = self._acts.get(self.count)
            if act is not None:
                self._busy = True
                act()
                self._busy = False
        return self.trace


def kill() -> None:
    """End this process as a power cut would: nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


def lines_of(move: Callable[[], object]) -> int:
    """Return how many lines a move has."""
    lines = Lines({})
    sys.settrace(lines.trace)
    try:
        move()
    finally:
        sys.settrace(None)
    return lines.count


def run_killed(move: Callable[[], object], acts: dict[int, Callable[[], None]]) -> bool:
    """Run a move in a process of its own; return whether it was killed."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # a fork beside threads: the child runs no other code
        child = os.fork()
    if not child:
        code = 1
        try:
            sys.settrace(Lines(acts).trace)
            move()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def settled(mover: FileMover, move: Callable[[], object]) -> Callable[[], object]:
    """Return a move with the work that follows it."""

    def both() -> object:
        move()
        return mover.settle(at_once=True)

    return both
