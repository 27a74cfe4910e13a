"""Credentials that change while the program runs, renewed in time.

The kubelet replaces a token file under a running pod, a credential of an exec plugin expires, and a server
may reject either earlier: `current` returns a valid credential, `invalidate` drops one that got a 401.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from fairlead.cluster.config.plugin import run_plugin
from fairlead.cluster.config.types import ClusterConfig
from fairlead.errors import KubeconfigError

TOKEN_AGE: Final = 60.0
"""Seconds for which a token is used before its file is read again."""
EXPIRY_MARGIN: Final = 10.0
"""A credential is renewed this many seconds before it expires."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The bearer token of a request, and the client certificate of its connection."""

    token: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)


class Identity(Protocol):
    """A source of credentials."""

    async def current(self) -> Credential:
        """Return a credential that is valid now."""

    def invalidate(self, used: Credential) -> bool:
        """Drop a credential that the server rejected; return whether the next one may differ."""


@dataclass(frozen=True, slots=True)
class StaticIdentity:
    """A certificate or a token that never changes."""

    credential: Credential

    async def current(self) -> Credential:
        """Return the credential."""
        return self.credential

    def invalidate(self, used: Credential) -> bool:
        """Return false: the credential never changes."""
        return False


class TokenFileIdentity:
    """A token in a file that another program replaces, such as the kubelet."""

    def __init__(self, path: str, base: Credential, monotonic: Callable[[], float]) -> None:
        self._path = path
        self._base = base
        self._monotonic = monotonic
        self._last: Credential | None = None
        self._until = float("-inf")

    async def current(self) -> Credential:
        """Return the file's token, at most a minute old."""
        now = self._monotonic()
        if self._last is None or now >= self._until:
            self._last = Credential(self._read(), self._base.certificate, self._base.key)
            self._until = now + TOKEN_AGE
        return self._last

    def invalidate(self, used: Credential) -> bool:
        """Read the file again, once for each rejected token."""
        if self._last is None or used != self._last:
            return True
        self._until = float("-inf")
        return self._read() != used.token

    def _read(self) -> str:
        try:
            with open(self._path, encoding="utf-8") as file:
                token = file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise KubeconfigError(
                f"{self._path}: the token cannot be read: {error}",
                hint="in a pod: mount the service account's token; elsewhere: correct tokenFile",
            ) from None
        if not token:
            raise KubeconfigError(
                f"{self._path}: the token file is empty", hint="write a token to it, or log in again"
            )
        return token


class PluginIdentity:
    """A program that prints credentials, run again when they expire."""

    def __init__(
        self, config: ClusterConfig, env: Mapping[str, str], wall_clock: Callable[[], float]
    ) -> None:
        self._config = config
        self._env = env
        self._wall_clock = wall_clock
        self._lock = asyncio.Lock()
        self._last: Credential | None = None
        self._until = float("-inf")

    async def current(self) -> Credential:
        """Return the last credential, or run the program; concurrent callers wait for the same run."""
        if self._last is not None and self._wall_clock() < self._until:
            return self._last
        async with self._lock:
            if self._last is None or self._wall_clock() >= self._until:
                printed = await run_plugin(self._config, self._env)
                login = self._config.login
                self._last = Credential(
                    printed.token,
                    printed.certificate or login.certificate,
                    printed.key or login.key,
                )
                # Without an expiry the credential is used until the server rejects it.
                self._until = float("inf") if printed.expires is None else printed.expires - EXPIRY_MARGIN
                if self._until <= self._wall_clock():
                    # Already expired by this clock: this clock or the plugin's is wrong, and a run for each
                    # request would not correct that. The server decides.
                    self._until = self._wall_clock() + EXPIRY_MARGIN
            return self._last

    def invalidate(self, used: Credential) -> bool:
        """Run the program again, once for each rejected credential."""
        if used == self._last:
            self._last = None
        return True


def make_identity(
    config: ClusterConfig,
    env: Mapping[str, str],
    wall_clock: Callable[[], float],
    monotonic: Callable[[], float],
) -> Identity:
    """Return the credential source that the configuration asks for."""
    login = config.login
    if login.plugin:
        return PluginIdentity(config, env, wall_clock)
    base = Credential(login.token, login.certificate, login.key)
    return TokenFileIdentity(login.token_file, base, monotonic) if login.token_file else StaticIdentity(base)
