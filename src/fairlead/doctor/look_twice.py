"""Look at a cluster, and once more where what was found may be of two moments: lists are not read at once."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from fairlead.cluster.api import ClusterClient
from fairlead.doctor.examine import examine, unsure
from fairlead.doctor.finding import Finding
from fairlead.doctor.read import ServerReviews, read

AGAIN: Final = 5.0
"""Seconds between two looks: within that controllers and agents have caught up with what pods did."""


async def visit(
    server: ServerReviews,
    cluster: ClusterClient,
    clock: Callable[[], datetime],
    scheduler: str,
    pause: Callable[[float], Awaitable[None]],
) -> list[Finding]:
    """Return what is found; of pods, claims and devices only what was found twice."""
    first = await read(server, cluster, clock(), scheduler)
    found = examine(first)
    if not unsure(first, found):
        return found
    await pause(AGAIN)
    return examine(replace(await read(server, cluster, clock(), scheduler), earlier=first))
