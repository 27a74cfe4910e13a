"""`python -m fairlead.local.mps`: started by fairlead's commands, never by people."""

import argparse
import os
import sys
from collections.abc import Sequence

from fairlead.errors import FairleadError
from fairlead.ledger import JobLedger, StateDirectory
from fairlead.local.background.log import ProcessLog
from fairlead.local.background.wakeup import ENDS, Wakeup
from fairlead.local.mps.files import KeeperFiles
from fairlead.local.mps.keeper import PERIOD, MpsKeeper


def main(argv: Sequence[str] | None = None) -> int:
    """Keep the MPS daemon of one device until no job needs it; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fairlead.local.mps")
    parser.add_argument("--lock-handle", type=int, required=True, help="the lock that the starter took")
    parser.add_argument("--key", required=True, help="the keeper's folder")
    options = parser.parse_args(argv)
    log = ProcessLog()
    try:
        _keep(options.lock_handle, options.key, log)
    except (FairleadError, OSError) as error:
        log(f"ended: {error}")
        return 1
    return 0


def _keep(lock_handle: int, key: str, log: ProcessLog) -> None:
    ledger = JobLedger(StateDirectory.open(os.environ))
    files = KeeperFiles(ledger.place.private, key)
    lock = files.inherited_lock(lock_handle)
    if lock is None:
        return  # the folder was removed meanwhile
    with ledger.watch() as watch, Wakeup() as wakeup:
        keeper = MpsKeeper(ledger, files, lock, log)
        while keeper.tend():
            watch.wait(PERIOD, (wakeup.fileno(),))
            if ENDS & wakeup.received():
                return  # jobs need the daemon: the next look of any of their runners starts a keeper


if __name__ == "__main__":
    sys.exit(main())
