"""Sources of measured use: what each can do, what can be set, and how one is opened."""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

from fairlead.cluster.http.fetch import FetchAccess, Fetcher
from fairlead.compat import StrEnum
from fairlead.errors import SettingsError
from fairlead.usage.agents import AgentSource, AgentTarget
from fairlead.usage.index import DeviceIndex
from fairlead.usage.limits import PERIOD, WINDOW, UseLimits
from fairlead.usage.prometheus import PrometheusSource
from fairlead.use import UseReport

SHORTEST: Final = 1.0
"""Seconds: the shortest refresh period."""
LONGEST: Final = 24 * 3600.0
"""Seconds: the longest window."""


class SourceName(StrEnum):
    """Where measured use is read."""

    AUTO = "auto"
    """Prometheus if its address is set, else the agents if there are any, else nothing."""
    PROMETHEUS = "prometheus"
    AGENTS = "agents"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """What can be set for reading measured use."""

    source: SourceName = SourceName.AUTO
    url: str = ""
    """The address of Prometheus, with the path under which its API is, if it has one."""
    token_file: str = ""
    """A bearer token, for Prometheus or for the agents."""
    basic_file: str = ""
    """`user:password` for basic authentication, instead of a token."""
    ca_file: str = ""
    """Certificate authorities (PEM); empty: the system's."""
    server_name: str = ""
    """The name that the certificate must have; that of agents is not their node's."""
    period: float = PERIOD
    """Seconds between two refreshes."""
    window: float = WINDOW
    """Seconds of history."""

    @property
    def limits(self) -> UseLimits:
        """The limits of what is kept."""
        return UseLimits.for_period(self.period)


class UseSource(Protocol):
    """A place where measured use is read. Faults are part of a report: neither method raises for them."""

    async def read(self, now: float) -> UseReport:
        """Return the newest samples; `now` is the time of the reader, in seconds since the epoch."""

    async def backfill(self, now: float, window: float) -> Sequence[UseReport]:
        """Return reports of the last `window` seconds, oldest first; none if the source keeps no history."""


class NoTelemetry:
    """A source without measurements: pods are placed by their requests."""

    async def read(self, now: float) -> UseReport:
        """Return an empty report."""
        return UseReport(now, SourceName.NONE.value, detail="no source of measured use is set")

    async def backfill(self, now: float, window: float) -> Sequence[UseReport]:
        """Return no reports."""
        return ()


def check_settings(settings: UsageSettings) -> None:
    """Raise where a setting has a value that it cannot have."""
    parts = urlsplit(settings.url)
    if settings.url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise SettingsError(
            f"{settings.url!r} is not the address of a Prometheus", "write it like http://prometheus:9090"
        )
    if settings.source is SourceName.PROMETHEUS and not settings.url:
        raise SettingsError("measured use is to be read from Prometheus, but no address is set", "set it")
    if settings.token_file and settings.basic_file:
        raise SettingsError("a bearer token and basic authentication exclude each other", "set one of them")
    if not SHORTEST <= settings.period <= settings.window <= LONGEST:
        raise SettingsError(
            f"a period of {settings.period:g} s and a window of {settings.window:g} s do not go together",
            f"set a period of at least {SHORTEST:g} s, and a window from the period to {LONGEST:g} s",
        )


@asynccontextmanager
async def open_source(
    settings: UsageSettings,
    index: Callable[[], DeviceIndex],
    targets: Callable[[], Sequence[AgentTarget]] | None = None,
) -> AsyncIterator[UseSource]:
    """Open the source of the settings; `index` and `targets` are called at each read, for nodes change."""
    check_settings(settings)
    name = settings.source
    if name is SourceName.AUTO:
        name = SourceName.PROMETHEUS if settings.url else SourceName.AGENTS if targets else SourceName.NONE
    if name is SourceName.NONE:
        yield NoTelemetry()
        return
    access = FetchAccess(
        settings.token_file, settings.basic_file, settings.ca_file, settings.server_name, os.environ
    )
    async with Fetcher.open(access) as fetcher:
        if name is SourceName.PROMETHEUS:
            yield PrometheusSource(fetcher, settings.url, index, settings.period)
        else:
            yield AgentSource(fetcher, targets or (lambda: ()), index, settings.period)
