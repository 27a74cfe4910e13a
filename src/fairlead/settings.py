"""What can be set for the programs that keep running, checked before they start."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fairlead.dcgm import Names
from fairlead.errors import SettingsError
from fairlead.faults import APPLICATION_XIDS, XidPolicy
from fairlead.units import Seconds, fault, parse_duration

LISTEN: Final = "127.0.0.1:19809"
"""Loopback, because the page asks for no login; a port outside 9100 to 9999, where each has its exporter."""
_LOOPBACK: Final = re.compile(r"localhost|::1|127(?:\.[0-9]{1,3}){3}")
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

    @property
    def loopback(self) -> bool:
        """Whether only this machine can come here."""
        return _LOOPBACK.fullmatch(self.host) is not None


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where a certificate and its key are; both are read again when they change."""

    cert: str
    """PEM: the certificate, then those between it and its authority."""
    key: str
    """PEM, without a password."""


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
    tls: TlsFiles | None = None
    """What the pages are served with; None serves them in the clear."""
    token_file: str = ""
    """Holds the token that a client must show; empty asks for none. Probes are always answered."""
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
    """Return the agent's settings from what a user wrote; raise SettingsError for what cannot be."""
    address, tls = parse_address(listen), tls_files(tls_cert, tls_key)
    return AgentSettings(
        listen=address,
        sweep=_period("sweep", sweep),
        sample=_period("sample", sample),
        uevents=uevents,
        node=node,
        tls=tls,
        token_file=_token_file(token_file, address, tls),
        dcgm_names=Names(dcgm_names),
    )


def parse_xids(text: str) -> XidPolicy:
    """Read which XIDs leave a GPU healthy beside those that are the application's: `79,94`, or `all`."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words == ["all"]:
        return XidPolicy(every=True)
    odd = [word for word in words if not (word.isascii() and word.isdecimal() and len(word) < 6)]
    if odd:
        raise SettingsError(
            f"ignore-xids: {odd[0]!r} is not the number of an XID", "write numbers with commas, 79,94, or all"
        )
    return XidPolicy(APPLICATION_XIDS | {int(word) for word in words})


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


def tls_files(cert: str, key: str) -> TlsFiles | None:
    """Return what to serve TLS with; None where it is not asked for."""
    if bool(cert) != bool(key):
        given, missing = ("tls-cert", "tls-key") if cert else ("tls-key", "tls-cert")
        raise SettingsError(f"{given} is set and {missing} is not", "TLS needs both: set the other one too")
    if not cert:
        return None
    return TlsFiles(_readable("tls-cert", cert), _readable("tls-key", key))


def _token_file(path: str, listen: Address, tls: TlsFiles | None) -> str:
    if path and tls is None and not listen.loopback:
        raise SettingsError(
            f"token-file: without TLS everybody on the way to {listen} could read the token",
            f"set --tls-cert and --tls-key too, or listen on this machine only: {LISTEN}",
        )
    return path and _readable("token-file", path)


def _readable(name: str, path: str) -> str:
    """Return the path of a file that can be read now; what it holds is looked at by whoever uses it."""
    try:
        with open(path, "rb") as file:
            file.read(1)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else str(error)) or "unknown"
        raise SettingsError(
            f"{name}: {path!r} cannot be read: {why.lower()}",
            f"name a file that user {os.getuid()} may read; in a pod, mount the secret there",
        ) from None
    return path


def _period(name: str, text: str) -> Seconds:
    seconds = _parsed(name, text, parse_duration)
    if not _SHORTEST <= seconds <= _LONGEST:
        raise SettingsError(f"{name}: {text} is out of range", "choose a period from 100ms to 24h")
    return seconds


def _parsed(name: str, text: str, parse: Callable[[str], Seconds]) -> Seconds:
    try:
        return parse(text)
    except ValueError as error:
        raise SettingsError(
            f"{name}: {fault(error)}", "durations are written like 500ms, 10s, 5m or 1h"
        ) from None
