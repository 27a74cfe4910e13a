"""NVML in a process of its own: a driver that hangs or crashes stops that process, and not this one.

A thread would not do: a process cannot end while one of its threads waits inside a driver.
"""

import os
import pickle
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from fairlead.faults import NvmlFailure
from fairlead.units import Seconds

if TYPE_CHECKING:
    from fairlead.attribution.sources import DeviceProcesses
    from fairlead.nvml import Gpu, GpuReading

PATIENCE: Final = Seconds(5.0)
"""How long a reading may take. A GPU without persistence mode takes about a second to wake up."""
_LATER: Final = Seconds(0.05)
"""How long a caller waits for an answer that is late already."""
_PROMPT: Final = Seconds(0.2)
"""How long a caller waits for a list of processes: it asks again soon, and has other work."""
_GIVE_UP: Final = Seconds(60.0)
"""After this long without an answer the process is killed and started again."""
_LOOK: Final = Seconds(0.001)
_MOST_WAITS: Final = 100
"""Looks at a process that waits inside a driver: a killed one of those ends when the driver lets it."""
_END: Final = Seconds(10.0)
"""How long a killed process may take to end on a machine with too few processors for its load."""
LENGTH: Final = struct.Struct("!I")
REPORT: Final = b"?"
"""Asks for everything that NVML reports."""
PROCESSES: Final = b"p"
"""Asks for the processes alone; the UUIDs or buses of the devices follow, separated by spaces."""
LONGEST_QUESTION: Final = 1 << 16
SILENT: Final = NvmlFailure(
    "the NVIDIA driver does not answer: read its messages (dmesg), then reload it or reboot", for_cuda=True
)
HUNG: Final = NvmlFailure(
    "the NVIDIA driver has not answered for a minute: read its messages (dmesg), then reboot", for_cuda=True
)
CRASHED: Final = NvmlFailure(
    "NVML ended its process: install the NVIDIA driver again, or reboot", for_cuda=True
)


@dataclass(frozen=True, slots=True)
class NvmlAnswer:
    """What NVML reports at one moment."""

    gpus: "tuple[Gpu, ...]" = ()
    readings: "Mapping[int, GpuReading]" = field(default_factory=dict)
    """By the number of the GPU, or of the MIG instance; one that is gone is absent."""
    processes: "tuple[DeviceProcesses, ...]" = ()
    xids: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Since the last answer."""
    failure: NvmlFailure | None = None


class NvmlProcess:
    """A child process with an open session; it ends with this process, or when it is closed."""

    def __init__(
        self,
        library: str = "",
        patience: Seconds = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._library, self._patience, self._clock = library, patience, clock
        self._socket: socket.socket | None = None
        self._pid = 0
        self._parent = os.getpid()
        self._asked: float | None = None
        """When the request was sent that is not answered yet."""
        self._late = False
        """Whether a caller has waited for the answer already."""
        self._partial = b""
        self._question = REPORT
        """What was asked last."""

    @property
    def pid(self) -> int:
        """The child's process id; 0 before the first reading."""
        return self._pid

    def ask(self, expected: Collection[str] = ()) -> bool:
        """Ask for a report that is read later; `expected` are the addresses that the driver lists itself."""
        if self._parent != os.getpid():
            self._disown()
        if self._socket is None and not self._start(tuple(expected)):
            return False
        return self._asked is not None or self._send(REPORT)

    def read(self, expected: Collection[str] = ()) -> NvmlAnswer:
        """Return NVML's report: the one that was asked for, or else the present one."""
        for _ in range(3):  # a process that has crashed is started again, and a list of processes passed over
            if not self.ask(expected):
                if self._pid:
                    return NvmlAnswer(failure=HUNG)
                continue
            late, question = self._late, self._question
            self._late = True
            answer = self._receive(_LATER if late else self._patience)
            if answer is not None and question == REPORT:
                return answer
            if self._asked is not None:
                return self._silent()
        return NvmlAnswer(failure=CRASHED)

    def processes(self, devices: Collection[str]) -> "tuple[DeviceProcesses, ...] | None":
        """Return the processes on devices, named by UUID or bus: far less work than a report.

        None: not known now, because the driver is slow, or because no report was read before.
        """
        if self._parent != os.getpid() or self._socket is None:
            return None
        question = PROCESSES + " ".join(devices).encode("ascii", "replace")
        if self._asked is None:
            if len(question) > LONGEST_QUESTION or not self._send(question):
                return None
            answer = self._receive(_PROMPT)
        elif self._question == question:
            answer = self._receive(Seconds(0.0))
        else:
            return None  # a report is late
        return answer.processes if answer is not None and answer.failure is None else None

    def close(self) -> None:
        """End the process, without waiting for a driver that hangs."""
        if self._parent != os.getpid():
            self._disown()
        self._hang_up()
        if self._pid and _is_ended(self._pid, kill=True):
            self._pid = 0

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._asked, self._partial = None, None, b""

    def _disown(self) -> None:
        """Leave the child to the process that this one was forked from: two readers would mix answers."""
        self._hang_up()
        self._pid, self._parent = 0, os.getpid()

    def _start(self, expected: tuple[str, ...]) -> bool:
        if self._pid and not _is_ended(self._pid):
            return False  # it waits inside the driver; a second one would too
        ours, its = socket.socketpair()
        pid = os.fork()
        if not pid:
            _run(its, self._library, expected)
        its.close()
        ours.setblocking(False)
        self._socket, self._pid, self._partial = ours, pid, b""
        return True

    def _send(self, question: bytes) -> bool:
        assert self._socket is not None
        try:
            self._socket.send(question)
        except OSError:
            self.close()
            return False
        self._asked, self._late, self._question = self._clock(), False, question
        return True

    def _receive(self, patience: Seconds) -> NvmlAnswer | None:
        """Return the answer; None where it is late (`_asked` stays) or the process has ended."""
        assert self._socket is not None
        deadline, poll = self._clock() + patience, select.poll()
        poll.register(self._socket, select.POLLIN)
        while True:
            whole = len(self._partial) >= LENGTH.size and LENGTH.unpack_from(self._partial)[0]
            if whole and len(self._partial) == LENGTH.size + whole:
                answer: NvmlAnswer = pickle.loads(self._partial[LENGTH.size :])  # noqa: S301  # our own child's
                self._asked, self._partial = None, b""
                return answer
            if not poll.poll(max(0.0, deadline - self._clock()) * 1000):
                return None
            part = b""
            with suppress(ConnectionError):
                part = self._socket.recv(1 << 20)
            if not part:
                self.close()
                return None
            self._partial += part

    def _silent(self) -> NvmlAnswer:
        if self._asked is not None and self._clock() - self._asked > _GIVE_UP:
            self.close()
            return NvmlAnswer(failure=HUNG)
        return NvmlAnswer(failure=SILENT)


def _is_ended(pid: int, *, kill: bool = False) -> bool:
    """Reap a child. One that waits inside a driver does not end yet: a tenth of a second is enough for it.

    Until it is reaped no other process can have its pid: it is killed only if it is still a child.
    """
    waits, end = 0, time.monotonic() + _END
    while waits < _MOST_WAITS and time.monotonic() < end:
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return True
        except ChildProcessError:  # reaped elsewhere
            return True
        if kill:
            os.kill(pid, signal.SIGKILL)
        waits += _waits_in_kernel(pid)
        time.sleep(_LOOK)
    return False


def _waits_in_kernel(pid: int) -> bool:
    """Return whether no signal reaches a process; one that only waits for a processor is not meant."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0] == b"D"
    except (OSError, IndexError):  # it is being reaped
        return False


def _run(channel: socket.socket, library: str, expected: tuple[str, ...]) -> None:
    """Run the child: it never returns."""
    try:
        _isolate(channel.fileno())
        from fairlead.local.machine.nvml_child import serve  # noqa: PLC0415  # while the parent does other work

        os.chdir("/")  # after the import: the path of modules may be relative
        serve(channel, library, expected)
    finally:
        os._exit(0)


def _isolate(keep: int) -> None:
    """Let go of what the parent has: its terminal, its signals, and above all the locks that it holds."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (0, 1, 2, keep):
            with suppress(OSError):  # the list itself was open
                os.close(int(name))
