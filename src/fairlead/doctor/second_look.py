"""Look at a cluster, and once more where what was found may be of two moments: lists are not read at once."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from fairlead.cluster.api import ClusterClient
from fairlead.doctor.examine import examine, needs_second_look
from fairlead.doctor.finding import Finding
from fairlead.doctor.read import ServerReviews, read

SECOND_LOOK_AFTER: Final = 5.0
"""Seconds between two looks: within that controllers and agents have caught up with what pods did."""


async def examine_cluster(
    server: ServerReviews,
    cluster: ClusterClient,
    clock: Callable[[], datetime],
    scheduler: str,
    pause: Callable[[float], Awaitable[None]],
) -> list[Finding]:
    """Return what is found; of pods, claims and devices only what was found twice."""
    first = await read(server, cluster, clock(), scheduler)
    found = examine(first)
    if not needs_second_look(first, found):
        return found
    await pause(SECOND_LOOK_AFTER)
    return examine(replace(await read(server, cluster, clock(), scheduler), earlier=first))
