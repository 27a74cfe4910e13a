"""Measured use from the agents' own metrics pages, where there is no Prometheus."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairlead.cluster.http.fetch import Fetcher, FetchFailure
from fairlead.usage.collect import ReportCollector, SeriesCount
from fairlead.usage.index import DeviceIndex
from fairlead.usage.page import PageRow, read_page
from fairlead.use import UseFault, UseReport

SOURCE: Final = "agents"
PAGE_LIMIT: Final = 4 << 20
"""Bytes of one page."""
SECONDS: Final = 5.0
"""The most seconds for one page."""
AT_ONCE: Final = 16
_NAMED: Final = 3
"""Failures that a report describes in words."""


@dataclass(frozen=True, slots=True)
class AgentTarget:
    """The metrics page of one agent."""

    node: str
    url: str


@dataclass(frozen=True, slots=True)
class _PageFault:
    fault: UseFault
    detail: str


class AgentSource:
    """Reads every agent's page at each refresh; an agent that fails costs the samples of its node only."""

    def __init__(
        self,
        fetcher: Fetcher,
        targets: Callable[[], Sequence[AgentTarget]],
        index: Callable[[], DeviceIndex],
        period: float,
    ) -> None:
        self._fetcher = fetcher
        self._targets = targets
        self._index = index
        self._period = period
        self.count = SeriesCount()
        """The series of the last read."""

    async def read(self, now: float) -> UseReport:
        """Return the samples of all agents that answer within a refresh period."""
        targets = self._targets()
        if not targets:
            detail = "there is no agent to read measured use from; install the agents, or set a Prometheus"
            return UseReport(now, SOURCE, faults={UseFault.NO_SERIES: 1}, detail=detail)
        collector = ReportCollector(self._index())
        semaphore = asyncio.Semaphore(AT_ONCE)
        tasks = {asyncio.ensure_future(self._read(target, semaphore)): target for target in targets}
        try:
            await asyncio.wait(tasks, timeout=self._period)
        finally:
            for task in tasks:
                task.cancel()
        faults, details = Counter[UseFault](), list[str]()
        for task, target in tasks.items():
            result = self._result(task, target)
            if isinstance(result, _PageFault):
                faults[result.fault] += 1
                details.append(result.detail)
                continue
            for metric, labels, value in result:
                collector.add(metric, labels, now, value)
        self.count = collector.count
        report = collector.report(now, SOURCE, _summary(details, len(targets)))
        return replace(report, faults=dict(faults + Counter(report.faults)))

    async def backfill(self, now: float, window: float) -> Sequence[UseReport]:
        """Return no reports: a page has no history."""
        return ()

    def _result(
        self, task: "asyncio.Task[list[PageRow] | _PageFault]", target: AgentTarget
    ) -> "list[PageRow] | _PageFault":
        if task.done():
            return task.result()
        return _PageFault(UseFault.UNREACHABLE, f"{target.node}: not read within {self._period:g} s")

    async def _read(self, target: AgentTarget, semaphore: asyncio.Semaphore) -> list[PageRow] | _PageFault:
        async with semaphore:
            page = await self._fetcher.fetch(target.url, limit=PAGE_LIMIT, seconds=SECONDS)
        if isinstance(page, FetchFailure):
            fault = UseFault.LIMIT if page.too_large else UseFault.UNREACHABLE
            return _PageFault(fault, f"{target.node}: {page.text}; {page.hint}")
        if page.status != 200:
            return _PageFault(
                UseFault.UNREACHABLE, f"{target.node}: {target.url} answers {page.status}; check its token"
            )
        rows = read_page(page.body, target.node)
        if isinstance(rows, str):
            return _PageFault(UseFault.GARBAGE, f"{target.node}: {target.url}: {rows}")
        return rows


def _summary(details: list[str], targets: int) -> str:
    if not details:
        return ""
    more = f"; and {len(details) - _NAMED} more" if len(details) > _NAMED else ""
    return f"{len(details)} of {targets} agents could not be read: {'; '.join(details[:_NAMED])}{more}"
