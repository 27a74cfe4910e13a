"""One process of a pipeline: `python -m fairlead.pipeline.worker DESCRIPTOR PARENT`."""

import ctypes
import os
import select
import signal
import sys
from collections.abc import Sequence
from typing import Final

from fairlead.pipeline.control import Channel
from fairlead.pipeline.malloc import keep_freed_memory
from fairlead.pipeline.progress import ProgressPage
from fairlead.pipeline.work.loop import PipelineWorker

_PR_SET_PDEATHSIG: Final = 1
_FAILED: Final = 1


def main(arguments: Sequence[str]) -> None:
    """Run as a worker of the process that started this one, and never longer than it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(arguments[1]):
        sys.exit(_FAILED)  # it ended before the kernel knew
    keep_freed_memory(os.environ)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the coordinator drains
    channel = Channel.adopt(int(arguments[0]))
    select.select([channel.fileno()], [], [])
    try:
        received = channel.receive()
    except EOFError:
        sys.exit(_FAILED)
    assert received is not None
    body, descriptors = received
    for descriptor in descriptors:  # not only the page: what else came stays open until this process ends
        os.set_inheritable(descriptor, False)
    sys.path[:] = body["path"]
    if body["cores"]:
        os.sched_setaffinity(0, body["cores"])
    PipelineWorker(channel, body, ProgressPage(descriptors[0])).run()


if __name__ == "__main__":
    main(sys.argv[1:])
