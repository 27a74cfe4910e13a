"""The relay on the loopback: what it passes on, delays, slows down, holds and cuts."""

import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from fairlead.reproduce.emulation.relay import (
    RETRANSMIT_S,
    Relay,
    RelayShape,
    _Lane,
    _Wire,
    apply_line,
    relay,
)


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """Serve a port that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                end, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(end,), daemon=True).start()

    def answer(end: socket.socket) -> None:
        with end:
            try:
                while data := end.recv(1 << 16):
                    end.sendall(data)
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture
def made(echo: tuple[str, int]) -> Iterator[Relay]:
    with relay(echo) as each:
        yield each


def trip(end: socket.socket, size: int) -> float:
    """Send bytes, wait until all are back, and return the seconds."""
    begin = time.monotonic()
    threading.Thread(target=end.sendall, args=(b"x" * size,), daemon=True).start()
    left = size
    while left:
        left -= len(end.recv(1 << 16))
    return time.monotonic() - begin


def test_bytes_pass_and_a_delay_counts_both_ways_while_it_runs(made: Relay) -> None:
    with socket.create_connection(made.address, 10) as end:
        trip(end, 3 << 20)
        made.change(delay_s=0.15)
        assert trip(end, 10) >= 0.3
        made.change(delay_s=0.0)
        trip(end, 10)
        assert made.accepted == 1


def test_without_a_target_a_connection_that_nothing_redirected_ends() -> None:
    with relay(None) as made, socket.create_connection(made.address, 10) as end:
        assert end.recv(1) == b""


def test_a_rate_holds_a_connection_that_is_open(made: Relay) -> None:
    with socket.create_connection(made.address, 10) as end:
        made.change(bytes_per_s=1e6)
        assert trip(end, 300_000) >= 0.3


def test_a_cut_ends_connections_and_new_ones_pass(made: Relay) -> None:
    with socket.create_connection(made.address, 10) as end:
        trip(end, 10)
        made.cut()
        assert not end.recv(1)
    with socket.create_connection(made.address, 10) as end:
        trip(end, 10)
    made.is_away = True
    with socket.create_connection(made.address, 10) as end:
        assert not end.recv(1)


@pytest.mark.parametrize(
    ("shape", "chance", "due"),
    [
        (RelayShape(), 0.0, [5.0, 5.0]),
        (RelayShape(delay_s=0.5), 0.0, [5.5, 5.5]),
        (RelayShape(bytes_per_s=100.0), 0.0, [6.0, 7.0]),
        (RelayShape(loss=0.2), 0.3, [5.0, 5.0]),
        (RelayShape(loss=0.2), 0.1, [5.0 + RETRANSMIT_S, 5.0 + 2 * RETRANSMIT_S]),
        (RelayShape(0.5, 100.0), 0.0, [6.5, 7.5]),
    ],
)
def test_when_bytes_may_leave(shape: RelayShape, chance: float, due: list[float]) -> None:
    one, two = socket.socketpair()
    with one, two:
        lane = _Lane(one, two, _Wire())
        for _ in range(2):
            lane.take(bytes(100), shape, 5.0, chance)
        assert [at for at, _ in lane.held] == pytest.approx(due)
        assert lane.size == 200


def test_lines_change_the_relay(made: Relay) -> None:
    assert json.loads(apply_line('{"delay_s": 0.1, "cut": true}', made))["delay_s"] == 0.1
    assert made.shape.delay_s == 0.1
    for line in ('{"speed": 1}', "[1]", "none"):
        assert "problem" in json.loads(apply_line(line, made))
    assert made.shape == RelayShape(delay_s=0.1)
