"""What can be set for the programs that keep running, checked before they start."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fairlead.errors import SettingsError
from fairlead.units import Seconds, parse_duration

LISTEN: Final = "127.0.0.1:19809"
"""Loopback, because the page asks for no login; a port outside 9100 to 9999, where each has its exporter."""
_ADDRESS: Final = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<name>[^\[\]:]*)):(?P<port>[0-9]{1,5})")
_SHORTEST, _LONGEST = Seconds(0.1), Seconds(24 * 3600.0)
_SWEEP, _SAMPLE, _DEBOUNCE = Seconds(300.0), Seconds(10.0), Seconds(1.0)


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str
    """A name or an address; empty means every interface."""
    port: int
    """0 lets the kernel choose."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What can be set for the node agent."""

    listen: Address = Address("127.0.0.1", 19809)
    """Where the metrics page is served."""
    sweep: Seconds = _SWEEP
    """How often the whole machine is looked at, whether or not the kernel reported a change."""
    sample: Seconds = _SAMPLE
    """How often load, memory, power, temperature and clocks are measured."""
    uevents: bool = True
    """Whether the kernel's reports of changed devices lead to a new look at once."""
    debounce: Seconds = _DEBOUNCE
    """How long to wait after such a report for the next one: devices come in bursts."""
    node: str = ""
    """The machine's name in metrics that carry one."""


def agent_settings(
    listen: str = LISTEN,
    sweep: str = "5m",
    sample: str = "10s",
    *,
    uevents: bool = True,
    node: str = "",
) -> AgentSettings:
    """Return the agent's settings from what a user wrote; raise SettingsError for what cannot be."""
    return AgentSettings(
        listen=parse_address(listen),
        sweep=_period("sweep", sweep),
        sample=_period("sample", sample),
        uevents=uevents,
        node=node,
    )


def parse_address(text: str) -> Address:
    """Read where to listen: `127.0.0.1:19809`, `[::1]:19809`, `:19809` for every interface."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise SettingsError(
            f"listen: {text!r} is not an address", f"write it like {LISTEN}, [::1]:19809 or :19809"
        )
    port = int(found["port"])
    if port > 65535:
        raise SettingsError(
            f"listen: there is no port {port}", "choose one from 1 to 65535, or 0 for any free one"
        )
    return Address(found["six"] or found["name"] or "", port)


def _period(name: str, text: str) -> Seconds:
    seconds = _parsed(name, text, parse_duration)
    if not _SHORTEST <= seconds <= _LONGEST:
        raise SettingsError(f"{name}: {text} is out of range", "choose a period from 100ms to 24h")
    return seconds


def _parsed(name: str, text: str, parse: Callable[[str], Seconds]) -> Seconds:
    try:
        return parse(text)
    except ValueError as error:
        raise SettingsError(f"{name}: {error}", "durations are written like 500ms, 10s, 5m or 1h") from None
