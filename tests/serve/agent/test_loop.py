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


class CountingMachine:
    """A machine that counts its scans and samples."""

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


class FakeEvents:
    """A socket on which each byte is an event: `!` for an accelerator, anything else for other devices."""

    def __init__(self, receiver: socket.socket) -> None:
        self._socket = receiver
        self.reads = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def changed(self) -> bool:
        data = self._socket.recv(100)
        self.reads += 1
        return b"!" in data


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_event_of_an_accelerator_causes_a_scan_and_others_do_not() -> None:
    machine = CountingMachine()
    settings = AgentSettings(debounce=Seconds(0.01), sample=Seconds(0.02))
    agent = Agent(settings, machine, lambda _: None)
    stop, stopper = socket.socketpair()
    receiver, sender = socket.socketpair()
    events = FakeEvents(receiver)
    with stop, stopper, receiver, sender, closing(listen(Address("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=serve, args=(agent, listener, stop, events))
        thread.start()
        until(lambda: machine.scans == 1)
        sender.send(b".")
        until(lambda: events.reads == 1)
        # A scan that is due comes before a sample that is due later: by the third one it would be over.
        samples = machine.samples
        until(lambda: machine.samples >= samples + 3)
        assert machine.scans == 1
        sender.send(b"!")
        until(lambda: machine.scans == 2)
        stopper.send(b"x")
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert machine.scans == 2
