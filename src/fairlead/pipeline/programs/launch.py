"""Become a program that ends with its parent: `python -I -S launch.py PARENT FILE WORD...`.

A file by itself, because the interpreter must start fast. It exists because the signal at a parent's end must
be asked for inside the new process, and a worker with threads must not run Python between fork and exec.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
CANNOT_EXECUTE = 126


def main(parent: int, file: str, command: list[str]) -> None:
    """Replace this process by a program."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(CANNOT_EXECUTE)  # the parent ended before the kernel knew
    for number in (signal.SIGINT, signal.SIGPIPE):  # ignored by the worker and by Python
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(file, command)  # noqa: S606 - the program that the user names
    except OSError as error:
        sys.stderr.write(f"{file} cannot be executed: {error.strerror}\n")
        sys.exit(CANNOT_EXECUTE)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
