"""Submitter: the process that records submits while its supervisor starts, known by a pipe."""

import os
import select


class Submitter:
    """The reading end of a pipe whose other end is open while submits are recorded."""

    def __init__(self, handle: int | None) -> None:
        """None: all submits were recorded before the supervisor started."""
        self._handle = handle
        if handle is not None:
            os.set_inheritable(handle, False)

    def handles(self) -> tuple[int, ...]:
        """Return the descriptors that become readable when the submitter is done; none once it is."""
        return (self._handle,) if self.is_recording() and self._handle is not None else ()

    def is_recording(self) -> bool:
        """Return whether more submits may come; the submitter closes its end after the last one, or dies."""
        if self._handle is None:
            return False
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        if poll.poll(0):
            self.close()
        return self._handle is not None

    def close(self) -> None:
        """Close this process's end."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
