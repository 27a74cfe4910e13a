"""Power and temperature of a cluster's accelerators: from Prometheus, or from the agents' own pages."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from fairlead.cluster.http.fetch import FetchAccess, Fetched, Fetcher
from fairlead.usage.agents import AT_ONCE, PAGE_LIMIT, SECONDS, AgentTarget
from fairlead.usage.answer import to_number
from fairlead.usage.collect import find_device
from fairlead.usage.index import DeviceIndex
from fairlead.usage.prometheus import PrometheusSource, QueryFault
from fairlead.usage.source import UsageSettings
from fairlead.use import DeviceKey

WATTS: Final = "fairlead_accelerator_power_watts"
CELSIUS: Final = "fairlead_accelerator_temperature_celsius"
_LINE: Final = re.compile(rb"^(%s|%s)\{([^}\n]*)\} (\S+)" % (WATTS.encode(), CELSIUS.encode()), re.MULTILINE)
_ID: Final = re.compile(rb'(?:^|,)id="([^"\\]*)"')


@dataclass(frozen=True, slots=True)
class Heat:
    """What an accelerator draws, and the temperature of its hottest sensor; None: not measured."""

    watts: float | None = None
    celsius: float | None = None


Sample = tuple[str, DeviceKey, float]
"""A metric, an accelerator and a value."""


class HeatReader(PrometheusSource):
    """Reads both metrics from Prometheus, or from each agent where it has no address."""

    def __init__(
        self,
        fetcher: Fetcher,
        settings: UsageSettings,
        index: Callable[[], DeviceIndex],
        targets: Callable[[], Sequence[AgentTarget]],
    ) -> None:
        super().__init__(fetcher, settings.url, index, settings.period)
        self._agents = targets

    async def heat(self) -> dict[DeviceKey, Heat]:
        """Return the values of every accelerator that has one; what does not answer has none."""
        return combine(await (self._asked() if self._url else self._fetched()))

    async def _asked(self) -> list[Sample]:
        index, found = self._index(), []
        for name in (WATTS, CELSIUS):
            answer = await self._query(name)
            for series in () if isinstance(answer, QueryFault) else answer:
                key = find_device(series.metric, index)
                if key is not None and series.value is not None:
                    found.append((name, key, to_number(series.value[1])))
        return found

    async def _fetched(self) -> list[Sample]:
        semaphore = asyncio.Semaphore(AT_ONCE)

        async def one(target: AgentTarget) -> list[Sample]:
            async with semaphore:
                page = await self._fetcher.fetch(target.url, limit=PAGE_LIMIT, seconds=SECONDS)
            return (
                read_page(page.body, target.node) if isinstance(page, Fetched) and page.status == 200 else []
            )

        return [each for found in await asyncio.gather(*map(one, self._agents())) for each in found]


def read_page(body: bytes, node: str) -> list[Sample]:
    """Return the values of an agent's page."""
    found = []
    for name, labels, value in _LINE.findall(body):
        identity = _ID.search(labels)
        if identity is not None:
            found.append(
                (
                    name.decode(),
                    DeviceKey(node, identity[1].decode(errors="replace")),
                    to_number(value.decode()),
                )
            )
    return found


def combine(samples: Iterable[Sample]) -> dict[DeviceKey, Heat]:
    """Return one value for each accelerator: of several sensors, the hottest."""
    watts: dict[DeviceKey, float] = {}
    celsius: dict[DeviceKey, float] = {}
    for name, key, value in samples:
        known, most = (watts, 1e6) if name == WATTS else (celsius, 1e3)
        if -most < value < most:
            known[key] = max(value, known.get(key, value))
    return {key: Heat(watts.get(key), celsius.get(key)) for key in watts.keys() | celsius.keys()}


@asynccontextmanager
async def open_heat(
    settings: UsageSettings, index: Callable[[], DeviceIndex], targets: Callable[[], Sequence[AgentTarget]]
) -> AsyncIterator[HeatReader]:
    """Open a reader with the credentials of measured use."""
    access = FetchAccess(
        settings.token_file, settings.basic_file, settings.ca_file, settings.server_name, os.environ
    )
    async with Fetcher.open(access) as fetcher:
        yield HeatReader(fetcher, settings, index, targets)
