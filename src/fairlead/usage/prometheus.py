"""Measured use from Prometheus, over its HTTP API.

Values are read as the samples of a range, not as the value now: the value of an instant vector may be five
minutes old, and carries the time of the query. A sample of a range carries its own time. Whether a metric is
still scraped is asked by an instant vector, which a series leaves at the first scrape without it.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.cluster.http.fetch import Fetched, Fetcher, FetchFailure
from fairlead.usage.answer import MAX_SERIES, Point, RawSeries, decode, to_number
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
"""Seconds: an older sample does not show that a metric was scraped."""
_SCRAPES: Final = 3
"""Scrapes without a sample after which a series has ended."""
_SHORTEST_GAP: Final = 2.0
"""Seconds: a scrape and a query may take that long."""
_SCRAPE: Final = "see: fairlead docs prometheus"


@dataclass(frozen=True, slots=True)
class QueryFault:
    """Why a query has no result."""

    fault: UseFault
    detail: str


@dataclass(frozen=True, slots=True)
class NewestSample:
    """The newest sample of a metric."""

    at: float
    clock: float
    """The time of the query; both are by the clock of Prometheus."""

    @property
    def age(self) -> float:
        """Seconds between the two."""
        return self.clock - self.at


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
        self._last: tuple[str, float] | None = None
        """The metric of the last good read, and the time of its newest sample."""
        self.count = SeriesCount()
        """The series of the last read."""

    async def read(self, now: float) -> UseReport:
        """Return the newest samples."""
        if self.dialect is not None:
            newest = await self._newest(self.dialect)
            if isinstance(newest, QueryFault):
                return self._failed(now, newest)
            if newest is not None and newest.age <= self._limits.fresh:
                report = await self._read(self.dialect, now, newest.clock)
                if UseFault.NO_SERIES not in report.faults:
                    return report
        self.dialect = None
        candidates = await self._detect(now)
        if isinstance(candidates, QueryFault):
            return self._failed(now, candidates)
        for dialect, clock in candidates:
            report = await self._read(dialect, now, clock)
            if report.devices or report.pods:
                self.dialect = dialect
                break
        return report

    async def backfill(self, now: float, window: float) -> Sequence[UseReport]:
        """Return the samples of the last seconds, one report for each refresh period."""
        candidates = await self._detect(now)
        if isinstance(candidates, QueryFault):
            return ()
        steps: dict[int, ReportCollector] = {}
        index = self._index()
        for metric in candidates[0][0].metrics:
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

    async def _read(self, dialect: Dialect, now: float, clock: float) -> UseReport:
        collector = ReportCollector(self._index())
        newest = float("-inf")
        for metric in dialect.metrics:
            answer = await self._query(f"{metric.name}[{round(self._limits.fresh)}s]")
            if isinstance(answer, QueryFault):
                return self._failed(now, answer)
            for series in answer:
                if series.values and not _has_ended(series.values, clock):
                    at, text = series.values[-1]
                    newest = max(newest, at)
                    collector.add(metric, series.metric, at, to_number(text), series.values[0][0])
        self.count = collector.count
        if newest > float("-inf"):
            self._last = dialect.metrics[0].name, newest
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

    async def _detect(self, now: float) -> list[tuple[Dialect, float]] | QueryFault:
        """Return the dialects with fresh samples, the preferred one first, and Prometheus' time."""
        fresh = []
        for dialect in DIALECTS:
            newest = await self._newest(dialect)
            if isinstance(newest, QueryFault):
                return newest
            if newest is not None and newest.age <= self._limits.fresh:
                fresh.append((dialect, newest.clock))
        return fresh or await self._without_fresh_samples(now)

    async def _without_fresh_samples(self, now: float) -> QueryFault:
        """Return since when there is no fresh sample, or that there was none."""
        for dialect in DIALECTS:
            newest = await self._newest(dialect, f"max(max_over_time(timestamp({{}})[{_LOOK_BACK}s:15s]))")
            if isinstance(newest, QueryFault):
                return newest
            if newest is not None:
                return self._lagging(dialect.metrics[0].name, newest.age)
        if self._last is not None and now - self._last[1] <= _LOOK_BACK:
            return self._lagging(self._last[0], now - self._last[1])
        return QueryFault(UseFault.NO_SERIES, self._no_series())

    def _lagging(self, name: str, age: float) -> QueryFault:
        text = f"the newest sample of {name} at {self._url} is {age:.0f} s old"
        return QueryFault(UseFault.LAGGING, f"{text}; check the targets of that job in Prometheus")

    async def _newest(
        self, dialect: Dialect, expression: str = "max(timestamp({}))"
    ) -> "NewestSample | QueryFault | None":
        """Return the newest sample of a dialect; None: it has none that Prometheus calls current."""
        answer = await self._query(expression.format(dialect.metrics[0].name))
        if isinstance(answer, QueryFault):
            return answer
        point = answer[0].value if answer else None
        return None if point is None else NewestSample(to_number(point[1]), point[0])

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


def _has_ended(points: Sequence[Point], clock: float) -> bool:
    """Return whether a series lacks the samples of the last scrapes: its exporter no longer has it."""
    gap = (points[-1][0] - points[0][0]) / (len(points) - 1) if len(points) > 1 else float("inf")
    return clock - points[-1][0] > max(_SHORTEST_GAP, _SCRAPES * gap)


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
