"""The loop: events reach the agent, and stopping is prompt."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing

from fairlead.inventory import Inventory, Machine
from fairlead.serve.agent.agent import Agent
from fairlead.serve.agent.loop import serve
from fairlead.serve.web.httpd import listen
from fairlead.settings import Address
from fairlead.settings.agent import AgentSettings
from fairlead.telemetry import Sample
from fairlead.units import Seconds

PATIENCE = 30.0


class Counting:
    """A machine that counts how often it is looked at."""

    def __init__(self) -> None:
        self.scans = 0
        self.samples = 0

    def scan(self) -> Inventory:
        self.scans += 1
        return Inventory(Machine())

    def sample(self, inventory: Inventory, now: Seconds, date: Seconds) -> tuple[Sample, ...]:
        self.samples += 1
        return ()

    def inventory_with_health(self) -> Inventory:
        return Inventory(Machine())


class Bell:
    """A line on which each byte is a report: `!` of a device that matters, anything else of others."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self.reports = 0

    def fileno(self) -> int:
        return self._line.fileno()

    def changed(self) -> bool:
        report = self._line.recv(100)
        self.reports += 1
        return b"!" in report


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_report_that_matters_leads_to_a_scan_and_others_do_not() -> None:
    machine = Counting()
    settings = AgentSettings(debounce=Seconds(0.01), sample=Seconds(0.02))
    agent = Agent(settings, machine, lambda _: None)
    stop, stopper = socket.socketpair()
    line, ringer = socket.socketpair()
    bell = Bell(line)
    with stop, stopper, line, ringer, closing(listen(Address("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=serve, args=(agent, listener, stop, bell))
        thread.start()
        until(lambda: machine.scans == 1)
        ringer.send(b".")
        until(lambda: bell.reports == 1)
        # A scan that is due comes before a sample that is due later: by the third one it would be over.
        samples = machine.samples
        until(lambda: machine.samples >= samples + 3)
        assert machine.scans == 1
        ringer.send(b"!")
        until(lambda: machine.scans == 2)
        stopper.send(b"x")
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert machine.scans == 2
