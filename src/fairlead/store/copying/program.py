"""The program of a copy: one pass, and one line of JSON that says what it has done."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from fairlead.errors import FairleadError
from fairlead.store.copying.passes import CopyJob
from fairlead.units import Bytes

_LOG: Final = "/dev/termination-log"
"""Where the kubelet reads the last words of a container."""


def main(arguments: Sequence[str], log: str = _LOG) -> int:
    """Run a pass, and return the exit code."""
    options = _parser().parse_args(arguments)
    capacity = Bytes(options.capacity) if options.capacity is not None else None
    job = CopyJob(options.source, options.target, capacity)
    try:
        result = job.last_pass() if options.last else job.first_pass()
    except FairleadError as error:
        text = f"{error}; {error.hint}" if error.hint else str(error)
        sys.stderr.write(f"{text}\n")
        _leave(log, text)
        return 1
    text = json.dumps(asdict(result))
    sys.stdout.write(f"{text}\n")
    _leave(log, text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fairlead.store.copying",
        description="Make one folder the same as another, which is only read.",
    )
    parser.add_argument("source", metavar="SOURCE", help="the folder that is copied")
    parser.add_argument("target", metavar="TARGET", help="the folder that becomes the same")
    parser.add_argument("--capacity", type=int, metavar="BYTES", help="how much the target may hold")
    parser.add_argument("--last", action="store_true", help="nobody writes: compare every byte of both")
    return parser


def _leave(log: str, text: str) -> None:
    if os.path.exists(log):
        with open(log, "w", encoding="utf-8") as file:
            file.write(text)
