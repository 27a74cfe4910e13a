"""Live sources: a thread takes every frame as it comes, and holds the newest few."""

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from fairlead.pipeline.endpoints.backoff import delay
from fairlead.pipeline.endpoints.codec.decode import DecodeError
from fairlead.pipeline.endpoints.reading import Captured, Pending
from fairlead.pipeline.frame import boottime
from fairlead.units import format_duration

DEPTH: Final = 2
"""Frames that a live source holds while the pipeline takes none."""
START_LIMIT: Final = 30.0
"""Seconds to the first frame, where the options state no limit."""
Connect = Callable[[], Iterator[Any]]
"""Connects and yields frames as they come; DecodeError when the camera is lost."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a live source goes without frames before its stage fails."""

    limit: float | None = None
    """Seconds; None: `START_LIMIT` up to the first frame, and any time after it."""

    def is_over(self, since: float, now: float, *, first: bool) -> bool:
        """Return whether to give up, after no frame has come since a moment."""
        limit = self.limit if self.limit is not None else START_LIMIT if first else math.inf
        return now - since >= limit


class LiveSource:
    """The frames of a camera, stamped as they come; connects again when the camera is lost."""

    replayable = False

    def __init__(
        self,
        name: str,
        connect: Connect,
        to_value: Callable[[Any], Any],
        *,
        depth: int = DEPTH,
        patience: Patience | None = None,
    ) -> None:
        """Take the name in messages, and what makes a value of a frame that is read."""
        self._name = name
        self._connect = connect
        self._to_value = to_value
        self._patience = patience or Patience()
        self._held: deque[tuple[Any, float]] = deque()
        self._depth = depth
        self._dropped = 0
        self._notices: deque[str] = deque(maxlen=8)
        self._failure = ""
        self._lock = threading.Lock()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread: threading.Thread | None = None

    def seek(self, sequence: int) -> None:
        """Do nothing: a camera goes on."""

    def read(self) -> Any:
        """Return the oldest frame that is held, or Pending; ConnectionError once the source gives up."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"camera {self._name}", daemon=True)
            self._thread.start()
        with self._lock:
            with suppress(BlockingIOError):
                os.eventfd_read(self._wake)
            if self._notices:
                return Pending(until=0.0, notice=self._notices.popleft())
            if not self._held:
                if self._failure:
                    raise ConnectionError(self._failure)
                return Pending(self._wake)
            frame, captured = self._held.popleft()
            dropped, self._dropped = self._dropped, 0
        return Captured(self._to_value(frame), captured, dropped)

    def _run(self) -> None:
        """Run in a thread: take frames, and connect again."""
        failures, since, first = 0, boottime(), True
        while True:
            reason = "the stream ended"
            try:
                for frame in self._connect():
                    if failures and not first:
                        self._say(f"{self._name}: frames again after {format_duration(boottime() - since)}")
                    failures, first, since = 0, False, boottime()
                    self._hold(frame, since)
            except DecodeError as error:
                reason = str(error)
            except Exception as error:  # noqa: BLE001 - the worker must hear of it
                self._fail(f"{self._name}: {type(error).__name__}: {error}")
                return
            failures += 1
            if self._patience.is_over(since, boottime(), first=first):
                self._fail(f"{self._name}: {reason}; no frame for {format_duration(boottime() - since)}")
                return
            if failures == 1:
                self._say(f"{self._name}: {reason}; connecting again")
            time.sleep(delay(failures))

    def _hold(self, frame: Any, captured: float) -> None:
        with self._lock:
            if len(self._held) >= self._depth:
                self._held.popleft()
                self._dropped += 1
            self._held.append((frame, captured))
        os.eventfd_write(self._wake, 1)

    def _say(self, line: str) -> None:
        with self._lock:
            self._notices.append(line)
        os.eventfd_write(self._wake, 1)

    def _fail(self, line: str) -> None:
        with self._lock:
            self._failure = line
        os.eventfd_write(self._wake, 1)
