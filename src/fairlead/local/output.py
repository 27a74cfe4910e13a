"""The output of submitted jobs: where it is kept and for how long, its last lines, and what follows."""

import os
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from typing import Final

from fairlead.errors import LedgerError
from fairlead.ledger.spec import OUTPUT_SUFFIX
from fairlead.units import Seconds

FOLDER: Final = "output"
"""Below the private folder of a user."""
MOST_OUTPUTS: Final = 1000
"""Outputs of ended jobs that are kept: the newest."""
ALWAYS_KEPT: Final = 100
"""The newest outputs, kept whatever their age: a board without a battery may boot in 1970, and after the jump
of its clock every output is decades old."""
LONGEST_KEPT: Final = Seconds(30 * 24 * 3600)
"""Other outputs of jobs that ended longer ago are removed."""
_BLOCK: Final = 64 * 1024


def make_output_folder(private: str) -> str:
    """Make the folder of outputs, which its owner alone can read, and return its path with a slash."""
    folder = os.path.join(private, FOLDER, "")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise LedgerError(
            f"{folder}: {error.strerror}: the output of jobs cannot be kept", "free some space there"
        ) from None
    return folder


def prune_outputs(private: str, live: Container[str], now: float) -> None:
    """Remove outputs of ended jobs beyond the newest; `now` is in seconds since the epoch."""
    ended = []
    with suppress(OSError), os.scandir(os.path.join(private, FOLDER)) as entries:
        for entry in entries:
            job_id = entry.name.removesuffix(OUTPUT_SUFFIX)
            if entry.name.endswith(OUTPUT_SUFFIX) and job_id.isdecimal() and job_id not in live:
                with suppress(OSError):
                    ended.append((int(job_id), entry.stat(follow_symlinks=False).st_mtime, entry.path))
    ended.sort(reverse=True)  # by number: no clock jump changes which are the newest
    for place, (_, changed, path) in enumerate(ended):
        if place >= MOST_OUTPUTS or (place >= ALWAYS_KEPT and now - changed > LONGEST_KEPT):
            with suppress(OSError):
                os.unlink(path)


def seek_last_lines(handle: int, lines: int | None) -> None:
    """Set the position of a file before its last lines; None: before all of them."""
    end = position = os.lseek(handle, 0, os.SEEK_END)
    if lines is None:
        os.lseek(handle, 0, os.SEEK_SET)
        return
    missing = lines + 1  # the line feed before the first of them
    if end and os.pread(handle, 1, end - 1) != b"\n":
        missing -= 1  # the last line has no end yet
    while lines and missing and position:
        start = max(0, position - _BLOCK)
        block = os.pread(handle, position - start, start)
        cut = len(block)
        while missing and (cut := block.rfind(b"\n", 0, cut)) >= 0:
            missing -= 1
        position = start + cut + 1 if not missing else start
    os.lseek(handle, position, os.SEEK_SET)


def read_on(handle: int) -> Iterator[bytes]:
    """Yield what a file holds behind the position."""
    while block := os.read(handle, _BLOCK):
        yield block


def follow(handle: int, is_over: Callable[[], bool], wait: Callable[[], None]) -> Iterator[bytes]:
    """Yield what a file holds, and what is appended to it, until its job has ended."""
    over = False
    while not over:
        over = is_over()  # asked before the last read: what was written before the end is read
        yield from read_on(handle)
        if not over:
            wait()
