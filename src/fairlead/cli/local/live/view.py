"""The view of `top`: the state of the machine as frames, what keys do to it, and jobs that are cancelled."""

import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import replace

from fairlead.cli.live.loop import KeyEffect
from fairlead.cli.live.paint import Glyphs, StyledLine
from fairlead.cli.live.terminal import ENDS, Size
from fairlead.cli.local.live.controls import Controls, TopEffect, press, rows_of, selected_row
from fairlead.cli.local.live.frame import frame
from fairlead.local.status import LocalStatus


class JobsView:
    """One `fairlead top`."""

    def __init__(
        self, read: Callable[[], LocalStatus], cancel: "Cancel", *, until_idle: bool = False
    ) -> None:
        self._read = read
        self._cancel = cancel
        self._until_idle = until_idle
        self._controls = Controls()
        self._status = read()

    def lines(self, size: Size, glyphs: Glyphs) -> Iterable[StyledLine]:
        """Return one frame."""
        return frame(self._status, size, self._controls, glyphs)

    def press(self, key: str) -> KeyEffect:
        """Act on a key."""
        rows = rows_of(self._status, self._controls)
        self._controls, effect = press(self._controls, key, rows, os.geteuid())
        if effect is TopEffect.CANCEL:
            job = rows[selected_row(rows, self._controls)]
            self._cancel.start(job.id)
            self._controls = replace(self._controls, message=f"cancelling job {job.id}")
            return KeyEffect.SOON
        return KeyEffect.QUIT if effect is TopEffect.QUIT else KeyEffect.NONE

    def refresh(self) -> None:
        """Read the status, unless it is paused, and what a cancellation says."""
        if not self._controls.paused:
            self._status = self._read()
        message = self._cancel.finished()
        if message:
            self._controls = replace(self._controls, message=message)

    def is_over(self) -> bool:
        """Return whether no job waits or runs, if that ends the view."""
        return self._until_idle and not self._status.running and not self._status.queued


class Cancel:
    """Cancels jobs in processes of their own: the view goes on while a command takes its time to end."""

    def __init__(self, cancel: Callable[[str], int]) -> None:
        self._cancel = cancel
        self._children: dict[int, tuple[str, int]] = {}

    def start(self, job_id: str) -> None:
        """Cancel a job; its process outlives this one, so that it can end a command that does not obey."""
        output, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setsid()
                for number in ENDS:
                    signal.signal(number, signal.SIG_DFL)
                os.dup2(theirs, 1)
                os.dup2(theirs, 2)
                code = self._cancel(job_id)
            finally:
                os._exit(code)
        os.close(theirs)
        self._children[child] = (job_id, output)

    def finished(self) -> str:
        """Return what a cancellation that has ended says; empty: none has ended since the last call."""
        for child, (job_id, output) in list(self._children.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended:
                continue
            del self._children[child]
            text = (
                os.read(output, 4096).decode("utf-8", "replace") if os.waitstatus_to_exitcode(status) else ""
            )
            os.close(output)
            first = text.strip().split("\n")[0]
            return first or f"job {job_id} is cancelled"
        return ""
