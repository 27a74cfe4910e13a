"""Settings of a node's agent."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fairlead.dcgm import Names
from fairlead.errors import SettingsError
from fairlead.faults import APPLICATION_XIDS, XidPolicy
from fairlead.settings import LISTEN, Address, TlsFiles, parse_address, readable, tls_files
from fairlead.units import Seconds, fault, parse_duration

_LISTEN: Final = parse_address(LISTEN)
_SHORTEST, _LONGEST = Seconds(0.1), Seconds(24 * 3600.0)
_SWEEP, _SAMPLE, _DEBOUNCE = Seconds(300.0), Seconds(10.0), Seconds(1.0)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """All settings of the node agent."""

    listen: Address = _LISTEN
    """Where the metrics page is served."""
    sweep: Seconds = _SWEEP
    """How often the whole machine is scanned, whether or not the kernel reported a change."""
    sample: Seconds = _SAMPLE
    """How often load, memory, power, temperature and clocks are measured."""
    uevents: bool = True
    """Whether kernel events of changed devices cause a scan at once."""
    debounce: Seconds = _DEBOUNCE
    """How long to wait after such an event for the next one: events come in bursts."""
    node: str = ""
    """The machine's name in metrics that carry one."""
    tls: TlsFiles | None = None
    """The TLS files of the pages; None serves plain HTTP."""
    token_file: str = ""
    """The file of the token that a client must send; empty requires none. Probes are always answered."""
    dcgm_names: Names = Names.BOTH
    """Which of DCGM's names the metrics of GPUs carry: up to dcgm-exporter 4.8, since, or both."""


def agent_settings(  # noqa: PLR0913  # one for each option, all of them checked here
    listen: str = LISTEN,
    sweep: str = "5m",
    sample: str = "10s",
    *,
    uevents: bool = True,
    node: str = "",
    tls_cert: str = "",
    tls_key: str = "",
    token_file: str = "",
    dcgm_names: str = Names.BOTH,
) -> AgentSettings:
    """Return the agent's settings from option texts; raise SettingsError for invalid ones."""
    address, tls = parse_address(listen), tls_files(tls_cert, tls_key)
    return AgentSettings(
        listen=address,
        sweep=_parse_period("sweep", sweep),
        sample=_parse_period("sample", sample),
        uevents=uevents,
        node=node,
        tls=tls,
        token_file=_token_file(token_file, address, tls),
        dcgm_names=Names(dcgm_names),
    )


def parse_xids(text: str) -> XidPolicy:
    """Parse the XIDs that leave a GPU healthy beside those of applications: `79,94`, or `all`."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words == ["all"]:
        return XidPolicy(every=True)
    invalid = [word for word in words if not (word.isascii() and word.isdecimal() and len(word) < 6)]
    if invalid:
        raise SettingsError(
            f"ignore-xids: {invalid[0]!r} is not the number of an XID",
            "write numbers with commas, 79,94, or all",
        )
    return XidPolicy(APPLICATION_XIDS | {int(word) for word in words})


def _token_file(path: str, listen: Address, tls: TlsFiles | None) -> str:
    if path and tls is None and not listen.loopback:
        raise SettingsError(
            f"token-file: without TLS the token crosses the network to {listen} in the clear",
            f"set --tls-cert and --tls-key too, or listen on this machine only: {LISTEN}",
        )
    return path and readable("token-file", path)


def _parse_period(name: str, text: str) -> Seconds:
    seconds = _parse(name, text, parse_duration)
    if not _SHORTEST <= seconds <= _LONGEST:
        raise SettingsError(f"{name}: {text} is out of range", "choose a period from 100ms to 24h")
    return seconds


def _parse(name: str, text: str, parse: Callable[[str], Seconds]) -> Seconds:
    try:
        return parse(text)
    except ValueError as error:
        raise SettingsError(
            f"{name}: {fault(error)}", "durations are written like 500ms, 10s, 5m or 1h"
        ) from None
