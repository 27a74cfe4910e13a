"""The keeper of a session as a process in the background: started once, stopped by its lock."""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from fairlead.augment.place import SessionPlace
from fairlead.errors import SessionError
from fairlead.job import ProcessRef
from fairlead.ledger.liveness import is_alive
from fairlead.local.background.lock import ProcessLock
from fairlead.local.background.spawn import background_environment, spawn

MODULE: Final = "fairlead.augment"
LOCK: Final = "keeper.lock"
_LOG: Final = "keeper.log"
_STOP_SECONDS: Final = 20.0
_POLL: Final = 0.02


def start_keeper(place: SessionPlace, environ: Mapping[str, str]) -> bool:
    """Start the keeper; False: it runs already."""
    lock = ProcessLock.take(place.path(LOCK))
    if lock is None:
        return False
    try:
        environment = background_environment(environ, environ.get("FAIRLEAD_STATE", ""))
        spawn(MODULE, ("--session", place.name), lock, place.path(_LOG), environment)
    finally:
        lock.close()
    return True


def keeper_process(place: SessionPlace) -> ProcessRef | None:
    """Return the keeper; None: it does not run."""
    words = place.read_text(LOCK).split()
    if len(words) != 3 or not (words[0].isdecimal() and words[1].isdecimal()):
        return None
    ref = ProcessRef(int(words[0]), int(words[1]), words[2])
    return ref if is_alive(ref) else None


def stop_keeper(place: SessionPlace) -> None:
    """Stop the keeper and its programs, and wait until they have ended."""
    ref = keeper_process(place)
    if ref is None:
        return
    with suppress(ProcessLookupError):
        os.kill(ref.pid, signal.SIGTERM)
    end = time.monotonic() + _STOP_SECONDS
    while is_alive(ref):
        if time.monotonic() > end:
            raise SessionError(
                f"the keeper of session {place.name} does not end (process {ref.pid})",
                f"see {place.path(_LOG)}",
            )
        time.sleep(_POLL)


def reload_keeper(place: SessionPlace) -> None:
    """Let the keeper read the session again: programs that are to run otherwise are started again."""
    ref = keeper_process(place)
    if ref is not None:
        with suppress(ProcessLookupError):
            os.kill(ref.pid, signal.SIGUSR1)


def last_problem(place: SessionPlace, program: str = "store") -> str:
    """Return the last line that a program wrote into its log."""
    lines = [line for line in place.read_text(f"{program}.log").splitlines() if line.strip()]
    return lines[-1] if lines else ""
