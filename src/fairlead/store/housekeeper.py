"""What happens beside the requests: walks for the quota, freezes announced, the trace written."""

import threading
import time
from collections.abc import Callable
from typing import Final

from fairlead.store.contents import Contents
from fairlead.store.parts import PartialUploads

_TICK: Final = 0.2
_FLUSH: Final = 1.0
_WALK: Final = 30.0
_SHARE: Final = 50.0
"""A walk is followed by a pause this many times as long: on a slow disk with many files it takes its time."""


class Housekeeper(threading.Thread):
    """A thread that does it, until it is stopped."""

    def __init__(self, contents: Contents, parts: PartialUploads, say: Callable[[str], None]) -> None:
        super().__init__(name="housekeeper", daemon=True)
        self._contents = contents
        self._parts = parts
        self._say = say
        self._ending = threading.Event()

    def run(self) -> None:
        """Keep house."""
        flush = walk = time.monotonic()
        while not self._ending.wait(_TICK):
            now = time.monotonic()
            try:
                self._contents.freeze.announce()
                if now - flush >= _FLUSH:
                    self._contents.trace.flush()
                    flush = now
                if now >= walk:
                    self._parts.expire()
                    took = self._contents.account.walk()
                    walk = time.monotonic() + max(_WALK, _SHARE * took)
            except OSError as error:
                self._say(f"housekeeping: {error}")

    def __enter__(self) -> "Housekeeper":
        """Start the thread."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread, and write the rest of the trace."""
        self._ending.set()
        self.join()
        self._contents.trace.flush()
