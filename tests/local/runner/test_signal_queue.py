"""Blocked signals are read one at a time, and a process that was stopped gets none that was never sent."""

import os
import signal
import time
from collections.abc import Mapping
from typing import Any

import pytest

from fairlead.local.runner.signal_queue import SignalQueue
from tests.local.runner.programs import forked

SIGNALS = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT}
SHORT, LONG = 0.02, 300.0


@pytest.mark.parametrize("polling", [False, True])
def test_signals_come_with_their_sender(polling: bool) -> None:
    def receive() -> Mapping[str, Any]:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        queue = SignalQueue(SIGNALS, polling=polling)
        nothing = queue.wait(0.0)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            os.kill(os.getpid(), number)
        received = [queue.wait(LONG), queue.wait(LONG), queue.wait(0.0)]
        queue.close()
        return {"nothing": nothing, "received": received, "pid": os.getpid()}

    answer = forked(receive)
    assert answer["nothing"] is None
    assert answer["received"] == [
        [signal.SIGUSR1, 0, answer["pid"]],
        [signal.SIGUSR2, 0, answer["pid"]],
        None,
    ]


@pytest.mark.parametrize("polling", [False, True])
def test_a_process_that_was_stopped_beyond_its_timeout_gets_no_signal(polling: bool) -> None:
    """The process waits again and again; each time it is stopped, it is continued after the timeout."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        queue = SignalQueue(SIGNALS - {signal.SIGCONT}, polling=polling)
        while (received := queue.wait(SHORT)) is None:
            os.write(writer, b".")
        os.write(writer, str(received.number).encode())
        os._exit(0)
    os.close(writer)
    for _ in range(20):
        assert os.read(reader, 1) == b"."
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)
        time.sleep(2 * SHORT)
        os.kill(pid, signal.SIGCONT)
    os.kill(pid, signal.SIGUSR1)
    with open(reader, encoding="ascii") as answer:
        assert answer.read().lstrip(".") == str(int(signal.SIGUSR1))
    os.waitpid(pid, 0)
