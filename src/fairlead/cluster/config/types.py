"""Where a cluster is and who we are there: plain values, however they were come by."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials."""

    command: str
    """A name to look up in PATH, or a path."""
    api_version: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str = ""
    provide_cluster_info: bool = False
    cluster_config: object = None
    """What the cluster entry holds for the plugin, handed on unread."""


@dataclass(frozen=True, slots=True)
class AuthInfo:
    """How we say who we are; several at once are sent together."""

    certificate: bytes = field(default=b"", repr=False)
    """PEM, with the chain."""
    key: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    """Read again and again: such tokens are replaced while programs run."""
    plugin: ExecPlugin | None = None


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Whom we act as, where we may."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A cluster, and who we are there."""

    server: str
    """`https://host:port`, with a path where a gateway needs one."""
    source: str = ""
    """Where this was read, for messages: a file, or the pod we run in."""
    context: str = ""
    user: str = ""
    namespace: str = "default"
    ca: bytes = field(default=b"", repr=False)
    """PEM; empty to trust what the system trusts."""
    insecure: bool = False
    """Do not verify the server: whoever answers is believed."""
    server_name: str = ""
    """The name that the server's certificate must have, where it is not the host's."""
    proxy: str = ""
    login: AuthInfo = AuthInfo()
    impersonate: Impersonation | None = None

    @property
    def display_name(self) -> str:
        """Return what a person would call it: the context and the file, or the server."""
        named = f"context {self.context!r} of {self.source}" if self.context else self.source
        return named or self.server
