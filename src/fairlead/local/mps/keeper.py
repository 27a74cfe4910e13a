"""MpsKeeper: keeps the MPS daemon of one device alive while jobs of its user need it, then ends it."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fairlead.errors import FairleadError
from fairlead.job import LocalState, ProcessRef
from fairlead.ledger.liveness import boot_id, is_alive, seconds_since_boot
from fairlead.limiter.mps import daemon_variables
from fairlead.limiter.mps_daemon import MpsDaemon
from fairlead.limiter.process import RunningProcess
from fairlead.local.mps.device import needs_mps
from fairlead.local.mps.files import KeeperFiles, KeeperStatus

if TYPE_CHECKING:
    from fairlead.ledger.ledger import JobLedger
    from fairlead.local.background.lock import ProcessLock

PERIOD: Final = 0.5
"""Seconds between two looks at the daemon; a change of the ledger wakes the keeper at once."""
RETRY: Final = 2.0
"""Seconds after which a daemon that did not start is tried again."""


class MpsKeeper:
    """One user's daemon on one device; the process that holds the lock calls `tend` again and again."""

    def __init__(
        self, ledger: "JobLedger", files: KeeperFiles, lock: "ProcessLock", log: Callable[[str], None]
    ) -> None:
        self._ledger = ledger
        self._files = files
        self._lock = lock
        self._log = log
        self._retry_at = 0.0
        self._status = files.read()
        known = self._status.daemon if self._status is not None else None
        self._daemon = None if known is None else RunningProcess(known.pid, known.start)
        """As seen last."""

    def tend(self) -> bool:
        """Start the daemon if it must run and does not; False: all is removed, this process must end."""
        status = self._status
        if not self._lock.is_in_place() or status is None:
            self._end("its folder was removed")
            return False
        if not self._is_needed(status) and self._stop_taking(status):
            self._end("")
            return False
        if status.daemon is None or not is_alive(status.daemon):
            if status.daemon is not None:
                self._log(f"the MPS daemon of {status.device.id} (process {status.daemon.pid}) ended")
            if seconds_since_boot() >= self._retry_at:
                self._start(status)
        return True

    def _is_needed(self, status: KeeperStatus) -> bool:
        return any(
            job.state is LocalState.RUNNING
            and needs_mps(job)
            and any(share.device == status.device.id for share in job.shares)
            for job in self._ledger.own_jobs()
        )

    def _stop_taking(self, status: KeeperStatus) -> bool:
        """Withdraw the daemon under the ledger's lock; False: a job has started since.

        A job writes its record under that lock, and looks for the daemon afterwards: it finds none.
        """
        with self._ledger.locked(self._log):
            if self._is_needed(status):
                return False
            self._say(replace(status, daemon=None, fault=""))
        return True

    def _start(self, status: KeeperStatus) -> None:
        """Start the daemon, or take over one that a killed keeper has started, and say how it went."""
        try:
            self._files.make_daemon_folder()
            daemon = MpsDaemon(self._files.daemon_folder, status.device.program)
            fault = ""
            if not daemon.is_alive():
                fault = daemon.start(daemon_variables(daemon.folder, status.device.uuid))
        except (FairleadError, OSError) as error:
            fault = str(error)
        process = None if fault else daemon.process()
        if process is None:
            fault = fault or "it ended at once"
            self._retry_at = seconds_since_boot() + RETRY
            self._say(replace(status, daemon=None, fault=fault))
            self._log(f"the MPS daemon of {status.device.id} does not start: {fault}")
            return
        self._daemon = process
        self._say(replace(status, daemon=ProcessRef(process.pid, process.start, boot_id()), fault=""))
        self._log(f"the MPS daemon of {status.device.id} runs (process {process.pid})")

    def _say(self, status: KeeperStatus) -> None:
        self._status = status
        try:
            self._files.write(status)
        except OSError as error:  # a full disk: jobs that wait for the daemon fail with that reason
            self._log(f"the status of {status.device.id} cannot be written: {error}")

    def _end(self, why: str) -> None:
        folder, status = self._files.daemon_folder, self._status
        program = status.device.program if status is not None else ""
        ended = MpsDaemon(folder, program).quit()
        if self._daemon is not None and self._daemon.is_alive():  # the folder with its pid was removed
            self._daemon.kill()
        if not ended:
            self._log(f"the MPS daemon in {folder.path} does not end")
        if why:
            self._log(f"ended: {why}")
        self._files.remove(self._lock)
