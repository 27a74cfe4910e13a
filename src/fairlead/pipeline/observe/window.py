"""What a worker did of late: rates and shares of time, from its latest reports. Pure."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

_MOST: Final = 9
"""Reports: four seconds, where a worker reports twice a second."""
_OVERDUE: Final = 1.5
"""Seconds after which a worker counts as silent: it is in a long call, or has ended."""
Report = Mapping[str, Any]


class ReportWindow:
    """The latest reports of one process, with the times of their arrival."""

    def __init__(self) -> None:
        self._reports: deque[tuple[float, Report]] = deque(maxlen=_MOST)

    def add(self, report: Report, now: float) -> None:
        """Add a report."""
        self._reports.append((now, report))

    def rate(self, value: Callable[[Report], float], now: float) -> float:
        """Return by how much a counter of the reports grows in a second; 0 before the second report."""
        if len(self._reports) < 2:
            return 0.0
        (begin, first), (end, last) = self._reports[0], self._reports[-1]
        seconds = (now if now - end > _OVERDUE else end) - begin
        return max(0.0, value(last) - value(first)) / seconds if seconds > 0 else 0.0

    def busy(self, value: Callable[[Report], float], now: float, since: float) -> float:
        """Return the share of time in calls; `since` is when an unfinished call began, 0: there is none.

        A report counts calls that are over. A worker that is silent is in one that is not.
        """
        if not since or now - since <= _OVERDUE:
            return self.rate(value, now)
        if not self._reports:
            return 1.0
        begin, first = self._reports[0]
        spent = value(self._reports[-1][1]) - value(first) + now - max(since, begin)
        return min(1.0, spent / (now - begin)) if now > begin else 1.0
