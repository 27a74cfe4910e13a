"""Measured use from Prometheus, over its HTTP API.

Every query asks for the samples of a range, not for the value now: the value of an instant vector may be five
minutes old, and carries the time of the query. A sample of a range carries its own time.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.cluster.http.fetch import Fetched, Fetcher, FetchFailure
from fairlead.usage.answer import MAX_SERIES, RawSeries, decode, to_number
from fairlead.usage.collect import ReportCollector, SeriesCount
from fairlead.usage.dialects import DIALECTS, Dialect
from fairlead.usage.index import DeviceIndex
from fairlead.usage.limits import UseLimits
from fairlead.use import UseFault, UseReport

SOURCE: Final = "prometheus"
ANSWER_LIMIT: Final = 64 << 20
"""Bytes of one answer."""
SECONDS: Final = 10.0
"""The most seconds for one answer."""
_LOOK_BACK: Final = 900
"""Seconds in which a dialect is looked for, to distinguish samples that lag from samples that never were."""
_SCRAPE: Final = "see docs/how-to/prometheus.md, What the scheduler reads"


@dataclass(frozen=True, slots=True)
class QueryFault:
    """Why a query has no result."""

    fault: UseFault
    detail: str


class PrometheusSource:
    """Reads the dialect that the cluster has, and looks for another one when that answers nothing."""

    def __init__(self, fetcher: Fetcher, url: str, index: Callable[[], DeviceIndex], period: float) -> None:
        self._fetcher = fetcher
        self._url = url.rstrip("/")
        self._index = index
        self._limits = UseLimits.for_period(period)
        self._period = period
        self.dialect: Dialect | None = None
        """The dialect of the last good read."""
        self.count = SeriesCount()
        """The series of the last read."""

    async def read(self, now: float) -> UseReport:
        """Return the newest samples."""
        if self.dialect is not None:
            report = await self._read(self.dialect, now)
            if report.devices or report.pods or UseFault.NO_SERIES not in report.faults:
                return report
        self.dialect = None
        candidates = await self._detect(now)
        if isinstance(candidates, QueryFault):
            return self._failed(now, candidates)
        report = self._failed(now, QueryFault(UseFault.NO_SERIES, self._no_series()))
        for dialect in candidates:
            report = await self._read(dialect, now)
            if report.devices or report.pods:
                self.dialect = dialect
                break
        return report

    async def backfill(self, now: float, window: float) -> Sequence[UseReport]:
        """Return the samples of the last seconds, one report for each refresh period."""
        candidates = await self._detect(now)
        if isinstance(candidates, QueryFault) or not candidates:
            return ()
        steps: dict[int, ReportCollector] = {}
        index = self._index()
        for metric in candidates[0].metrics:
            answer = await self._query(f"{metric.name}[{round(window)}s]")
            if isinstance(answer, QueryFault):
                return ()
            for series in answer:
                last: dict[int, tuple[float, str]] = {
                    int(point[0] // self._period): point for point in series.values
                }
                for step, (at, text) in last.items():
                    if step not in steps:
                        steps[step] = ReportCollector(index)
                    steps[step].add(metric, series.metric, at, to_number(text))
            await asyncio.sleep(0)
        ends = {step: min(now, (step + 1) * self._period) for step in steps}
        return [steps[step].report(ends[step], SOURCE) for step in sorted(steps)]

    async def _read(self, dialect: Dialect, now: float) -> UseReport:
        collector = ReportCollector(self._index())
        newest = float("-inf")
        for metric in dialect.metrics:
            answer = await self._query(f"{metric.name}[{round(self._limits.fresh)}s]")
            if isinstance(answer, QueryFault):
                return self._failed(now, answer)
            for series in answer:
                if series.values:
                    at, text = series.values[-1]
                    newest = max(newest, at)
                    collector.add(metric, series.metric, at, to_number(text), series.values[0][0])
        self.count = collector.count
        report = collector.report(now, SOURCE, self._about_times(now, newest))
        if report.devices or report.pods or report.faults:
            return report
        return self._failed(now, QueryFault(UseFault.NO_SERIES, self._no_series(dialect)))

    def _about_times(self, now: float, newest: float) -> str:
        """Return in words what is wrong with the times of all samples; empty: nothing."""
        age = now - newest
        if -self._limits.future <= age <= self._limits.fresh or newest == float("-inf"):
            return ""
        ago = f"{-age:.0f} s in the future" if age < 0 else f"{age:.0f} s old"
        return f"the newest sample of {self._url} is {ago}; compare the clocks of the machines"

    async def _detect(self, now: float) -> list[Dialect] | QueryFault:
        """Return the dialects with fresh samples, in their order of preference."""
        fresh, lagging = [], QueryFault(UseFault.NO_SERIES, self._no_series())
        for dialect in DIALECTS:
            name = dialect.metrics[0].name
            answer = await self._query(f"max(max_over_time(timestamp({name})[{_LOOK_BACK}s:15s]))")
            if isinstance(answer, QueryFault):
                return answer
            point = answer[0].value if answer else None
            if point is None:
                continue
            age = point[0] - to_number(point[1])
            if age <= self._limits.fresh:
                fresh.append(dialect)
            elif lagging.fault is UseFault.NO_SERIES:
                text = f"the newest sample of {name} at {self._url} is {age:.0f} s old"
                lagging = QueryFault(UseFault.LAGGING, f"{text}; check the scrapes of that job (up, targets)")
        return fresh or lagging

    def _no_series(self, dialect: Dialect | None = None) -> str:
        if dialect is None:
            names = ", ".join(each.metrics[0].name for each in DIALECTS)
            return f"{self._url} has no series of {names}; scrape the agents: {_SCRAPE}"
        if not self.count.series:
            return f"{self._url} has no fresh series of {dialect.metrics[0].name}; {_SCRAPE}"
        return (
            f"{self._url} has {self.count.series} series of {dialect.name}, none of a known accelerator "
            f"({self.count.example}); their labels must name the node: {_SCRAPE}"
        )

    def _failed(self, now: float, fault: QueryFault) -> UseReport:
        return UseReport(now, SOURCE, faults={fault.fault: 1}, detail=fault.detail)

    async def _query(self, expression: str) -> list[RawSeries] | QueryFault:
        address = f"{self._url}/api/v1/query"
        seconds = min(SECONDS, max(1.0, self._period))
        form = {"query": expression, "timeout": f"{seconds:g}s"}
        response = await self._fetcher.fetch(address, form=form, limit=ANSWER_LIMIT, seconds=seconds)
        if isinstance(response, FetchFailure):
            fault = UseFault.LIMIT if response.too_large else UseFault.UNREACHABLE
            return QueryFault(fault, f"{response.text}; {response.hint}")
        answer = decode(response.body) if response.status == 200 else ""
        if isinstance(answer, str):
            return _refusal(address, response, answer)
        if len(answer) > MAX_SERIES:
            text = f"{address} answers with {len(answer)} series; at most {MAX_SERIES} are read"
            return QueryFault(UseFault.LIMIT, text)
        return answer


def _refusal(address: str, response: Fetched, wrong: str) -> QueryFault:
    """Return what a response means that is no answer to a query."""
    status = response.status
    if status in (401, 403):
        text = f"{address} refuses the credentials ({status}); set a token file or a file for basic auth"
        return QueryFault(UseFault.UNREACHABLE, text)
    if 300 <= status < 400:
        text = f"{address} redirects to {response.location[:200]!r}; set that address, or the credentials"
        return QueryFault(UseFault.GARBAGE, f"{text} if it is a login page")
    if status >= 500:
        return QueryFault(UseFault.UNREACHABLE, f"{address} answers {status}; read the log of Prometheus")
    if "html" in response.content_type:
        text = f"{address} answers {status} with an HTML page; check the address: a login page or a proxy?"
        return QueryFault(UseFault.GARBAGE, text)
    if status != 200:
        body = decode(response.body)
        reason = (
            body if isinstance(body, str) and body.startswith("the query failed") else "check the address"
        )
        return QueryFault(UseFault.GARBAGE, f"{address} answers {status}; {reason}")
    return QueryFault(UseFault.GARBAGE, f"{address}: {wrong}; check that Prometheus' HTTP API is there")
