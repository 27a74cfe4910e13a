"""The address of a cluster and the credentials for it: plain values, from whatever source."""

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
    """The cluster entry's extension for the plugin, passed on unread."""


@dataclass(frozen=True, slots=True)
class AuthInfo:
    """The credentials of a client; those that are set are all sent."""

    certificate: bytes = field(default=b"", repr=False)
    """PEM, with the chain."""
    key: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    """Read again every minute: such tokens are replaced while programs run."""
    plugin: ExecPlugin | None = None


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user that requests act as, if the cluster allows it."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A cluster, and the credentials for it."""

    server: str
    """`https://host:port`, with a path where a gateway needs one."""
    source: str = ""
    """Where this was read, for messages: a file, or the mounted service account."""
    context: str = ""
    user: str = ""
    namespace: str = "default"
    ca: bytes = field(default=b"", repr=False)
    """PEM; empty for the system's certificate authorities."""
    insecure: bool = False
    """Do not verify the server's certificate."""
    server_name: str = ""
    """The name that the server's certificate must have, if it differs from the host's."""
    proxy: str = ""
    login: AuthInfo = AuthInfo()
    impersonate: Impersonation | None = None

    @property
    def display_name(self) -> str:
        """The context and the file, or the server, as messages name them."""
        named = f"context {self.context!r} of {self.source}" if self.context else self.source
        return named or self.server
