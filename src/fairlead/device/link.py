"""The link between a device and its store: round trip and rates, measured with a few requests."""

import time
from collections.abc import Callable
from typing import Final

from fairlead.device.connection import Reply, StoreConnection

PROBE: Final = "/.fairlead/probe"
_ROUND_TRIPS: Final = 5
_FIRST: Final = 64 * 1024
_MOST: Final = 4 * 1024 * 1024
_LONG_ENOUGH: Final = 0.25
"""Seconds: a shorter transfer says more of the round trip than of the rate."""


def measure_link(
    connection: StoreConnection, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the round trip, and the rate in both directions; at most 8 MiB each way are sent."""
    trips = [_seconds(clock, lambda: connection.request("GET", f"{PROBE}/0")) for _ in range(_ROUND_TRIPS)]
    trip = min(trips)
    up = _rate(clock, trip, lambda size: connection.request("PUT", PROBE, body=bytes(size)))
    down = _rate(clock, trip, lambda size: _fetch(connection, size))
    return {"round_trip_s": trip, "up_bytes_per_s": up, "down_bytes_per_s": down}


def _rate(clock: Callable[[], float], trip: float, transfer: Callable[[int], Reply]) -> float:
    size = _FIRST
    while True:
        taken = _seconds(clock, lambda size=size: transfer(size))  # type: ignore[misc]  # called at once
        if taken >= _LONG_ENOUGH or size >= _MOST:
            return round(size / max(taken - trip, taken / 10, 1e-6))
        size = min(size * 4, _MOST)


def _fetch(connection: StoreConnection, size: int) -> Reply:
    with connection.exchange("GET", f"{PROBE}/{size}") as response:
        for _ in connection.blocks(response):
            pass
        return Reply(response.status, {})


def _seconds(clock: Callable[[], float], work: Callable[[], Reply]) -> float:
    start = clock()
    work()
    return clock() - start
