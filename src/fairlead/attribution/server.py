"""The program: it measures when the agent asks, and answers one client at a time."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from fairlead.attribution import ANSWER_LIMIT, USE_SOCKET
from fairlead.attribution.cgroups import NoPod
from fairlead.attribution.procfs import ProcessTable
from fairlead.attribution.report import Owner, report
from fairlead.attribution.sources import ProcessSource, sources
from fairlead.warden.listener import serve_until_signal
from fairlead.warden.session import RequestSession

REQUEST: Final = {"use": True}
"""The only request."""
_AGAIN: Final = 0.2
"""Seconds for which an answer is repeated: a client that asks without a pause costs next to nothing."""


class AttributionConfig(NamedTuple):
    """The folder of the socket, the agent's group, and where the drivers are read."""

    folder: str
    group: int
    nvml: str = ""
    """The path of NVIDIA's management library; empty: the system's."""
    proc: str = "/proc"
    sys: str = "/sys"
    debugfs: str = ""
    """Where debugfs is mounted; empty: it is not read."""


class Attribution:
    """Answers the request; it keeps the drivers open."""

    def __init__(
        self,
        drivers: Sequence[ProcessSource],
        table: ProcessTable,
        say: Callable[[str], None],
        clock: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        self._drivers = drivers
        self._table = table
        self._say = say
        self._clock = clock
        """Seconds since the start of the machine."""
        self._measured: float | None = None
        self._answer = b""
        self._warned = False

    def answer(self, line: bytes) -> bytes:
        """Return the line that answers a request."""
        try:
            request = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            request = None
        if request != REQUEST:
            return _encode({"ok": False, "error": 'the only request is {"use": true}'})
        now = self._clock()
        if self._measured is None or not 0 <= now - self._measured < _AGAIN:
            self._answer, self._measured = self._measure(now), self._clock()
        return self._answer

    def close(self) -> None:
        """Release the drivers."""
        for driver in self._drivers:
            driver.close()

    def _measure(self, now: float) -> bytes:
        """Read all drivers; a process that started after `now` is not the one that a driver means."""
        devices = [device for driver in self._drivers for device in driver.read()]
        owners: dict[int, Owner] = {}
        for device in devices:
            for pid in device.processes:
                if pid not in owners:
                    owners[pid] = self._table.owner(pid, now)
        if NoPod.UNCLEAR in owners.values() and not self._warned:
            self._warned = True
            self._say("some processes are in cgroups of an unknown form: they count for no pod")
        answer = _encode({"ok": True, "devices": report(devices, owners.__getitem__)})
        if len(answer) > ANSWER_LIMIT:
            return _encode({"ok": False, "error": f"the answer is longer than {ANSWER_LIMIT} bytes"})
        return answer


def run(config: AttributionConfig, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT."""
    drivers = list(sources(config.nvml, config.sys, config.debugfs))
    attribution = Attribution(drivers, ProcessTable(config.proc), say)
    factories = {
        USE_SOCKET: lambda connection, now: RequestSession(connection, attribution.answer, now),
    }
    try:
        serve_until_signal(config.folder, config.group, factories, say, limit=1)
    finally:
        attribution.close()


def _encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
