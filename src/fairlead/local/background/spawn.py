"""The start of a process in the background: detached, with its lock, its log and a small environment."""

import fcntl
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from fairlead.local.background.lock import ProcessLock
from fairlead.local.background.log import open_log

LOCK_HANDLE: Final = 3
"""The first handle after the standard streams: where the process finds its lock."""
FIRST_PASSED: Final = LOCK_HANDLE + 1
"""Where it finds the first of the other handles that are passed to it."""
_ABOVE: Final = 16
"""Handles of the starter are copied above this before they are put into place."""
_KEPT: Final = (
    "HOME",
    "LANG",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHOME",
    "TZ",
    "USER",
)
_KEPT_PREFIXES: Final = ("FAIRLEAD_", "XDG_")
"""Variables that such a process needs itself; commands get those of their own job."""
_OWN: Final = {
    "OPENBLAS_NUM_THREADS": "1",  # without threads a fork is safe, and the queue is too small for more
    "OMP_NUM_THREADS": "1",
    "PYTHONSAFEPATH": "1",
}


def background_environment(environ: Mapping[str, str], state: str) -> dict[str, str]:
    """Return the environment of such a process: nothing else of its starter reaches later jobs."""
    kept = {
        name: value for name, value in environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }
    if path := environ.get("PYTHONPATH"):  # the process starts in /
        kept["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))
    if kept.get("FAIRLEAD_STATE"):
        kept["FAIRLEAD_STATE"] = state
    return {**kept, **_OWN}


def spawn(
    module: str,
    arguments: Sequence[str],
    lock: ProcessLock,
    log: str,
    environment: Mapping[str, str],
    passed: Sequence[int] = (),
) -> None:
    """Start a module as a daemon: no parent, no terminal, no handle of this process but the lock.

    The handles in `passed` follow the lock, from FIRST_PASSED on.
    """
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:  # not the leader of its session: it can never get a terminal
            words = [sys.executable, "-m", module, "--lock-handle", str(LOCK_HANDLE), *arguments]
            _become(words, lock, log, environment, passed)
    finally:
        os._exit(0)


def _become(
    words: Sequence[str],
    lock: ProcessLock,
    log: str,
    environment: Mapping[str, str],
    passed: Sequence[int],
) -> None:
    lock.name_holder()
    os.chdir("/")
    os.umask(0o077)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with suppress(OSError):  # the C library keeps two for itself
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    null = os.open(os.devnull, os.O_RDWR)
    streams = (null, null, open_log(log), lock.handle, *passed)
    copies = [fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for handle in streams]
    for target, source in enumerate(copies):
        os.dup2(source, target)
    for handle in map(int, os.listdir("/proc/self/fd")):
        if handle >= len(copies):
            with suppress(OSError):  # the listing's own handle is closed already
                os.close(handle)
    os.execve(words[0], list(words), dict(environment))  # noqa: S606  # this very interpreter, no shell
