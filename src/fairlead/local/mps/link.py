"""MpsLink: the daemon that the programs of one job depend on, as the job's runner sees it."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from fairlead.errors import FairleadError
from fairlead.job import ProcessRef
from fairlead.ledger.liveness import is_alive, seconds_since_boot
from fairlead.limiter.mps import client_variables
from fairlead.limiter.process import RunningProcess, find_process
from fairlead.local.mps.device import INSTEAD, MpsDevice
from fairlead.local.mps.files import KeeperFiles
from fairlead.local.mps.start import ensure_keeper, tend_left_keepers
from fairlead.local.processes import children_of

if TYPE_CHECKING:
    from fairlead.job import LocalJob
    from fairlead.ledger.place import StateDirectory

READY_LIMIT: Final = 30.0
"""Seconds for which a job waits for its daemon: both need less than one, on a busy board more."""
PERIOD: Final = 1.0
"""Seconds between two looks at the daemon."""
GRACE: Final = 3.0
"""Seconds in which programs whose daemon ended may end by themselves: each of their CUDA calls fails."""
_PAUSE: Final = 0.02


class MpsLink:
    """The daemon of one running job: waited for before its command starts, watched while it runs."""

    def __init__(
        self,
        place: "StateDirectory",
        device: MpsDevice,
        environ: Mapping[str, str],
        clock: Callable[[], float] = seconds_since_boot,
    ) -> None:
        self._place = place
        self._device = device
        self._environ = environ
        self.clock = clock
        """Seconds since the boot, as the job's runner counts them."""
        self._files = KeeperFiles.of(place.private, device)
        self._daemon: ProcessRef | None = None
        self._lost_at: float | None = None
        self._server: RunningProcess | None = None
        self._server_lost: tuple[float, RunningProcess] | None = None
        self.due = 0.0
        """When to look next, in seconds since the boot."""

    def variables(self, job: "LocalJob") -> dict[str, str]:
        """Return the variables of the job's command: its daemon and its limits."""
        return client_variables(self._files.daemon_folder, job.memory_limit, job.requested.gpu_compute)

    def wait(self, interrupted: Callable[[], bool], limit: float = READY_LIMIT) -> str:
        """Wait until the daemon is seen alive; return why the command must not start. Empty: it may.

        Without its daemon a program would run on without its limits, and say nothing.
        """
        end = time.monotonic() + limit
        name = f"the MPS daemon of {self._device.id}"
        while True:
            try:
                ensure_keeper(self._place, self._device, self._environ)
            except (FairleadError, OSError) as error:
                return f"{name} cannot be started: {error}; {INSTEAD}"
            status = self._files.read()
            if status is not None and status.daemon is not None and is_alive(status.daemon):
                self._daemon = status.daemon
                return ""
            if status is not None and status.fault:
                return f"{name} cannot be started: {status.fault}; {INSTEAD}"
            if interrupted():
                return f"ended while {name} was started"
            if time.monotonic() >= end:
                return f"{name} did not start within {limit:g} s: read {self._files.log}, or {INSTEAD}"
            time.sleep(_PAUSE)

    def look(self) -> None:
        """Notice the end of the daemon, and start a keeper where the last one was killed."""
        now = self.clock()
        self.due = now + PERIOD
        if self._daemon is not None and self._lost_at is None:
            self._look_for_server(self._daemon, now)
            if not is_alive(self._daemon):
                self._lost_at = now
        with suppress(FairleadError, OSError):  # a full disk: the next look tries again
            ensure_keeper(self._place, self._device, self._environ)

    @property
    def fault(self) -> str:
        """Why programs of the job that fail now cannot go on; empty: for no reason that MPS has.

        A new server serves new programs only. One that runs on for a while was no client of the old server.
        """
        if self._lost_at is not None and self._daemon is not None:
            return self._fault_of("daemon", self._daemon.pid)
        if self._server_lost is None or self.clock() > self._server_lost[0] + GRACE:
            return ""
        return self._fault_of("server", self._server_lost[1].pid)

    def _look_for_server(self, daemon: ProcessRef, now: float) -> None:
        """Notice the server, which the daemon starts for its first client, and its end."""
        if self._server is not None and not self._server.is_alive():
            self._server_lost, self._server = (now, self._server), None
        if self._server is None:
            servers = map(find_process, children_of().get(daemon.pid, ()))
            self._server = next((server for server in servers if server is not None), None)

    def close(self) -> None:
        """Start a keeper where the last one was killed: it ends the daemon, if no other job needs it."""
        with suppress(FairleadError, OSError):
            tend_left_keepers(self._place, self._environ)

    def _fault_of(self, part: str, pid: int) -> str:
        return f"the MPS {part} of {self._device.id} ended (process {pid}): its programs cannot go on"

    @property
    def is_overdue(self) -> bool:
        """Whether programs whose daemon ended had time enough to end by themselves."""
        return self._lost_at is not None and self.clock() >= self._lost_at + GRACE
