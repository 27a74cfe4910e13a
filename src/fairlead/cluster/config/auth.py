"""Say who we are: credentials that change while we run, read again in time.

A token file is replaced under a running pod, an exec plugin's answer runs out, and a server may stop
believing either before we expect it: `fresh` gives what is good now, `refused` is told of a 401.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from fairlead.cluster.config.plugin import run_plugin
from fairlead.cluster.config.types import ClusterConfig
from fairlead.errors import KubeconfigError

TOKEN_AGE: Final = 60.0
"""Seconds that the token of a file is used before the file is read again."""
EXPIRY_MARGIN: Final = 10.0
"""Seconds before a credential runs out that a new one is fetched."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a request carries, and what the connection under it shows."""

    token: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)


class Identity(Protocol):
    """Who we are, as of now."""

    async def current(self) -> Credential:
        """Return a credential that is good now."""

    def invalidate(self, used: Credential) -> bool:
        """Note that the server did not believe a credential; say whether the next may be another."""


@dataclass(frozen=True, slots=True)
class StaticIdentity:
    """A certificate or a token that never changes."""

    credential: Credential

    async def current(self) -> Credential:
        """Return it."""
        return self.credential

    def invalidate(self, used: Credential) -> bool:
        """Another try would be the same."""
        return False


class TokenFileIdentity:
    """A token in a file that someone replaces."""

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
        """Read the file again, once for each token that was refused."""
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
                f"{self._path}: the token file is empty", hint="write a token to it, or log in anew"
            )
        return token


class PluginIdentity:
    """A program that prints credentials, run again when they run out."""

    def __init__(self, config: ClusterConfig, env: Mapping[str, str], wall: Callable[[], float]) -> None:
        self._config = config
        self._env = env
        self._wall = wall
        self._lock = asyncio.Lock()
        self._last: Credential | None = None
        self._until = float("-inf")

    async def current(self) -> Credential:
        """Return what the program printed last, or run it; many who ask at once wait for one run."""
        if self._last is not None and self._wall() < self._until:
            return self._last
        async with self._lock:
            if self._last is None or self._wall() >= self._until:
                answer = await run_plugin(self._config, self._env)
                login = self._config.login
                self._last = Credential(
                    answer.token,
                    answer.certificate or login.certificate,
                    answer.key or login.key,
                )
                # Without an expiry it holds until the server says otherwise.
                self._until = float("inf") if answer.expires is None else answer.expires - EXPIRY_MARGIN
                if self._until <= self._wall():
                    # Already over by our clock: ours or the plugin's is wrong, and running it for each
                    # request would not mend that. The server decides.
                    self._until = self._wall() + EXPIRY_MARGIN
            return self._last

    def invalidate(self, used: Credential) -> bool:
        """Run the program again, once for each credential that was refused."""
        if used == self._last:
            self._last = None
        return True


def make_identity(
    config: ClusterConfig,
    env: Mapping[str, str],
    wall: Callable[[], float],
    monotonic: Callable[[], float],
) -> Identity:
    """Return who the configuration says we are."""
    login = config.login
    if login.plugin:
        return PluginIdentity(config, env, wall)
    base = Credential(login.token, login.certificate, login.key)
    return TokenFileIdentity(login.token_file, base, monotonic) if login.token_file else StaticIdentity(base)
