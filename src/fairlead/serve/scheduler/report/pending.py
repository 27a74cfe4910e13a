"""The reports on pods that wait, and on their groups, in one tick. Pure."""

from typing import Final

from fairlead.cluster.watch.changes import Key
from fairlead.serve.scheduler.cycle.scheduling import SchedulingCycle
from fairlead.serve.scheduler.effects import Report
from fairlead.serve.scheduler.report import conditions, podgroup_status

MOST: Final = 20
"""The most reasons that are reported in each tick."""


def pending_reports(cycle: SchedulingCycle, moment: float, now: str) -> list[Report]:
    """Return the conditions and events that report why pods and their groups wait."""
    reports: list[Report] = []
    groups: dict[Key, list[Report]] = {}
    cache = cycle.cache
    for uid, text in cycle.reporter.take(moment, MOST, cycle.recently_queued(moment)).items():
        pod, reserved = cache.pod(uid), uid in cache.waiting_for_volumes
        if pod is None or not (reserved or cache.waits(uid)):
            continue
        reports += (
            conditions.report_waiting_for_volumes(pod, text, now)
            if reserved
            else conditions.report_unschedulable(pod, text, now)
        )
        group = cache.group_of(pod)
        if group is not None:
            groups[group.key] = podgroup_status.report_unschedulable(group, text, now)
    return [*reports, *(report for of_group in groups.values() for report in of_group)]
