"""`python -m fairlead.local.supervisor`: started by fairlead's commands, never by people."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from fairlead.errors import FairleadError
from fairlead.history.store import JobHistory
from fairlead.host import Host
from fairlead.ledger import JobLedger, LedgerWatch, StateDirectory
from fairlead.local.background.lock import ProcessLock
from fairlead.local.background.log import ProcessLog
from fairlead.local.background.wakeup import ENDS, Wakeup
from fairlead.local.machine.machine import LocalMachine
from fairlead.local.supervisor.start import LOCK
from fairlead.local.supervisor.submitter import Submitter


def main(argv: Sequence[str] | None = None) -> int:
    """Start submitted jobs until none waits; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fairlead.local.supervisor")
    parser.add_argument("--lock-handle", type=int, help="the open file of the lock that the starter took")
    parser.add_argument("--submitter-handle", type=int, help="a pipe that is open while submits are recorded")
    options = parser.parse_args(argv)
    log = ProcessLog()
    try:
        return _supervise(options.lock_handle, Submitter(options.submitter_handle), log)
    except (FairleadError, OSError) as error:
        log(f"ended: {error}")
        return 1


def _supervise(lock_handle: int | None, submitter: Submitter, log: ProcessLog) -> int:
    place = StateDirectory.open(os.environ)
    lock = _lock(place.private, lock_handle)
    if lock is None:
        return 0  # another supervisor of this user runs
    lock.name_holder()
    ledger = JobLedger(place)
    with ExitStack() as stack:
        machine = LocalMachine(Host("/"), place)
        stack.callback(machine.close)
        has_driver = machine.prepare()
        # The engine takes as long to load as NVML needs for its start.
        from fairlead.local.runner.detached import import_for_runners  # noqa: PLC0415
        from fairlead.local.supervisor.loop import Supervisor  # noqa: PLC0415

        watch = stack.enter_context(ledger.watch())
        wakeup = stack.enter_context(Wakeup())
        os.register_at_fork(after_in_child=lambda: _forget_parent(lock, watch, wakeup, submitter))
        history = JobHistory.open(place, os.environ, log)
        supervisor = Supervisor(ledger, history, machine, lock, os.environ, log, submitter.is_recording)
        import_for_runners(has_driver)
        while supervisor.decide():
            watch.wait(supervisor.pause(), (wakeup.fileno(), *submitter.handles()))
            if ENDS & wakeup.received():
                break  # the jobs stay queued: the next command starts a supervisor
            supervisor.reap()
    return 0


def _lock(private: str, handle: int | None) -> ProcessLock | None:
    path = os.path.join(private, LOCK)
    return ProcessLock.take(path) if handle is None else ProcessLock.inherited(path, handle)


def _forget_parent(lock: ProcessLock, watch: LedgerWatch, wakeup: Wakeup, submitter: Submitter) -> None:
    """In a forked runner: close what is the supervisor's own, so that its lock ends with it."""
    if lock.handle < 0:
        return  # a runner forks its command: in it these numbers belong to other files
    lock.close()
    watch.close()
    wakeup.close()
    submitter.close()


if __name__ == "__main__":
    sys.exit(main())
