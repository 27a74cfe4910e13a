"""Signals reach the process that was meant, or none."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from fairlead.job import ProcessRef
from fairlead.ledger import process_ref
from fairlead.local.terminate import processes_of, send_signal, send_to_all


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[str]"]:
    """Return a process that leads a group, with a child."""
    process = subprocess.Popen(
        ["sh", "-c", "sleep 300 & echo $!; wait"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # all of the group have ended
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ref(pid: int) -> ProcessRef:
    found = process_ref(pid)
    assert found is not None
    return found


def test_a_later_process_of_the_same_pid_is_not_signalled(sleeper: "subprocess.Popen[str]") -> None:
    meant = ref(sleeper.pid)
    assert not send_signal(replace(meant, start=meant.start - 1), signal.SIGKILL)
    assert not send_signal(replace(meant, boot="another"), signal.SIGKILL)
    assert processes_of(replace(meant, start=meant.start - 1), group=True) == ()
    assert sleeper.poll() is None
    assert send_signal(meant, signal.SIGKILL)
    assert sleeper.wait(60) == -signal.SIGKILL


def test_a_stopped_process_obeys(sleeper: "subprocess.Popen[str]") -> None:
    meant = ref(sleeper.pid)
    send_signal(meant, signal.SIGSTOP)
    send_to_all([meant], signal.SIGTERM)
    assert sleeper.wait(60) == -signal.SIGTERM


def test_descendants_and_the_group_are_found(sleeper: "subprocess.Popen[str]") -> None:
    assert sleeper.stdout is not None
    child = int(sleeper.stdout.readline())
    for group in (False, True):
        assert processes_of(ref(sleeper.pid), group=group) == (ref(sleeper.pid), ref(child))


def test_a_child_of_a_dead_parent_stays_in_the_group() -> None:
    with subprocess.Popen(
        ["sh", "-c", "sh -c 'sleep 300 & echo $!' ; wait; exec sleep 300"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        orphan = ref(int(process.stdout.readline()))
        try:
            assert orphan in processes_of(ref(process.pid), group=True)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
