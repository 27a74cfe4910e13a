"""Examine a cluster, and examine it again where a finding may mix two moments: lists are read in turn."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from fairlead.cluster.api import ClusterClient
from fairlead.doctor.examine import examine, needs_second_look
from fairlead.doctor.finding import Finding
from fairlead.doctor.read import ServerReviews, read
from fairlead.doctor.telemetry import with_telemetry
from fairlead.usage.source import UsageSettings

SECOND_LOOK_AFTER: Final = 5.0
"""Seconds between two looks: in that time controllers and agents catch up with the pods."""


async def examine_cluster(
    server: ServerReviews,
    cluster: ClusterClient,
    clock: Callable[[], datetime],
    scheduler: str,
    pause: Callable[[float], Awaitable[None]],
    usage: UsageSettings | None = None,
) -> list[Finding]:
    """Return the findings; those on pods, claims and devices only if both looks found them.

    `usage` names a Prometheus whose measured use is checked as well.
    """
    first = await read(server, cluster, clock(), scheduler)
    first = await with_telemetry(first, usage, clock().timestamp())
    findings = examine(first)
    if not needs_second_look(first, findings):
        return findings
    await pause(SECOND_LOOK_AFTER)
    second = await read(server, cluster, clock(), scheduler)
    return examine(replace(second, earlier=first, telemetry=first.telemetry))
