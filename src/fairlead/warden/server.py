"""The warden's program: its configuration, and what each of its sockets does."""

import socket
from typing import NamedTuple

from fairlead.warden import CDI_SOCKET, POD_RESOURCES_SOCKET
from fairlead.warden.devices import Devices
from fairlead.warden.listener import SessionFactory, serve_until_signal
from fairlead.warden.protocol import answer
from fairlead.warden.session import RelaySession, RequestSession, Session
from fairlead.warden.store import Say, Store


class WardenConfig(NamedTuple):
    """The warden's folder, the agent's group, and what to serve."""

    folder: str
    group: int
    pod_resources: str | None = None
    cdi: str | None = None
    device_root: str = ""


def run(config: WardenConfig, say: Say) -> None:
    """Serve until SIGTERM or SIGINT."""
    serve_until_signal(config.folder, config.group, session_factories(config, say), say)


def session_factories(config: WardenConfig, say: Say) -> dict[str, SessionFactory]:
    """Return, by the name of each configured socket, what starts its sessions."""
    factories: dict[str, SessionFactory] = {}
    if config.pod_resources is not None:
        kubelet = config.pod_resources
        factories[POD_RESOURCES_SOCKET] = lambda connection, now: open_relay(connection, kubelet, now)
    if config.cdi is not None:
        store = Store(config.cdi, Devices(config.device_root), say)
        factories[CDI_SOCKET] = lambda connection, now: RequestSession(
            connection, lambda request: answer(request, store, say), now
        )
    return factories


def open_relay(connection: socket.socket, path: str, now: float) -> Session | None:
    """Relay a client to the socket at `path`; a new connection each time, so that it survives restarts."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.setblocking(False)
    try:
        server.connect(path)
    except OSError:
        server.close()
        return None
    return RelaySession(connection, server, now)
