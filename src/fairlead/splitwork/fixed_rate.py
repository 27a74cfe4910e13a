"""FixedRate: a worker of an exact rate, to measure how jobs are split.

The service time of each input is one divided by the rate, counted from the later of two moments: when the
input was there, and when the one before it ended. A thread that wakes up late therefore loses nothing.
"""

import hashlib
import threading
import time

from fairlead.splitwork.task import GivenUp, InputFailure, Made, WorkTask


def fixed_result(path: str, content: bytes) -> bytes:
    """Return the result of an input: it can be checked, and no other input has it."""
    return f"{path} {hashlib.sha256(content).hexdigest()}\n".encode()


class FixedRate:
    """Runs inputs at a rate, which may change in the middle of one."""

    def __init__(self, rate: float) -> None:
        self._changed = threading.Condition()
        self._rate = rate
        self._free = 0.0
        """When the last input ended."""
        self._left = 1.0
        """The share of the current input that is left at `_from`."""
        self._from = 0.0
        self._interrupted = False

    def set_rate(self, rate: float) -> None:
        """Go on at another rate, also with the input that is run."""
        with self._changed:
            now = time.monotonic()
            self._left -= max(0.0, now - self._from) * self._rate
            self._from, self._rate = max(now, self._from), rate
            self._changed.notify_all()

    def run(self, task: WorkTask, target: str) -> Made:
        """Return the result of an input when its time has passed."""
        del target
        try:
            with open(task.source, "rb") as file:
                content = file.read()
        except OSError as error:
            return InputFailure(None, f"{task.lease.path}: {error.strerror}")
        with self._changed:
            self._interrupted = False
            self._left, self._from = 1.0, max(self._free, task.ready)
            while (wait := self._from + self._left / self._rate - time.monotonic()) > 0:
                self._changed.wait(wait)
                if self._interrupted:
                    return GivenUp()
            self._free = self._from + self._left / self._rate
        return fixed_result(task.lease.path, content)

    def interrupt(self) -> None:
        """Give up the input that is run."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def drop(self, task: WorkTask) -> None:
        """Run it to its end: what is measured is the hand-out, at its worst."""
        del task

    def close(self) -> None:
        """Do nothing: it holds nothing."""
