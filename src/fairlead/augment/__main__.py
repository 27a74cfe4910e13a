"""`python -m fairlead.augment`: the keeper of a session; started by fairlead's commands, never by people."""

import argparse
import os
import select
import sys
import time
from collections.abc import Sequence

from fairlead.augment.control import LOCK
from fairlead.augment.keeper import SessionKeeper, start_program
from fairlead.augment.place import SessionPlace
from fairlead.augment.programs import session_programs
from fairlead.errors import FairleadError
from fairlead.local.background.lock import ProcessLock
from fairlead.local.background.log import ProcessLog
from fairlead.local.background.wakeup import ENDS, RELOADS, Wakeup


def main(argv: Sequence[str] | None = None) -> int:
    """Keep the programs of a session running until SIGTERM; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fairlead.augment")
    parser.add_argument("--lock-handle", type=int, required=True, help="the open file of the lock")
    parser.add_argument("--session", required=True, help="the session's name")
    options = parser.parse_args(argv)
    log = ProcessLog()
    try:
        return _keep(SessionPlace.existing(os.environ, options.session), options.lock_handle, log)
    except (FairleadError, OSError) as error:
        log(f"ended: {error}")
        return 1


def _keep(place: SessionPlace, handle: int, log: ProcessLog) -> int:
    lock = ProcessLock.inherited(place.path(LOCK), handle)
    if lock is None:
        return 0  # another keeper of this session runs
    lock.name_holder()
    with Wakeup() as wakeup:
        keeper = SessionKeeper(place, session_programs(place, place.read()), log, start_program)
        try:
            while not ENDS & (signals := wakeup.received()):
                if RELOADS & signals:
                    keeper.update(session_programs(place, place.read()), time.monotonic())
                due = keeper.step(time.monotonic())
                pause = None if due is None else max(0.0, due - time.monotonic())
                select.select([wakeup.fileno()], [], [], pause)
        finally:
            keeper.stop()
    lock.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
