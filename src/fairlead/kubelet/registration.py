"""How a kubelet discovers a plugin: it watches a folder, and calls GetInfo on each socket that appears.

The kubelet connects to the plugin, now and after each of its restarts. So the agent needs no right to
connect to the kubelet, and need not watch whether it still runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.errors import KubeletError
from fairlead.kubelet.messages import Empty, PluginInfo, RegistrationStatus
from fairlead.kubelet.sockets import GrpcServer, Method, UnaryMethod, quiet

_SERVICE: Final = "/pluginregistration.Registration"


@dataclass(frozen=True, slots=True)
class Registered:
    """The kubelet's status of a registration."""

    ok: bool
    error: str = ""


StatusCallback = Callable[[Registered], None]


class Registration:
    """The registration service of one plugin: its info, and the callback for the kubelet's status."""

    def __init__(
        self, kind: str, name: str, endpoint: Path, versions: Sequence[str], on_status: StatusCallback
    ) -> None:
        self._info = PluginInfo(kind, name, str(endpoint), tuple(versions))
        self._on_status = on_status

    def methods(self) -> tuple[Method, ...]:
        """Return the methods for the gRPC server."""
        return (
            UnaryMethod(f"{_SERVICE}/GetInfo", Empty, self._get_info),
            UnaryMethod(f"{_SERVICE}/NotifyRegistrationStatus", RegistrationStatus, self._notify),
        )

    async def _get_info(self, _: Empty) -> PluginInfo:
        return self._info

    async def _notify(self, status: RegistrationStatus) -> Empty:
        self._on_status(Registered(status.plugin_registered, status.error))
        return Empty()


class Registrar:
    """A plugin's two sockets: its endpoint, and the registration that names the endpoint to a kubelet."""

    def __init__(
        self,
        endpoint: GrpcServer,
        registry: Path,
        plugin: tuple[str, str, Sequence[str]],
        on_status: StatusCallback,
        say: Callable[[str], None] = quiet,
    ) -> None:
        kind, name, versions = plugin
        self._endpoint = endpoint
        self._on_status = on_status
        self._say = say
        registration = Registration(kind, name, endpoint.path, versions, self._on_registered)
        self._registration = GrpcServer(registry, registration.methods(), say)
        self.registered: Registered | None = None
        """The kubelet's last status; None before the first."""

    async def open(self) -> None:
        """Open the endpoint before the registration, which names it."""
        await self._endpoint.open()
        try:
            await self._registration.open()
        except KubeletError:
            await self._endpoint.close()
            raise

    async def reregister(self) -> None:
        """Reopen the registration socket: the kubelet watches the folder and registers the plugin again."""
        await self._registration.close()
        try:
            await self._registration.open()
        except KubeletError as error:
            self._say(str(error))

    async def close(self) -> None:
        """Close the registration, upon which the kubelet drops the plugin, then the endpoint."""
        await self._registration.close()
        await self._endpoint.close()
        self.registered = None

    def _on_registered(self, registered: Registered) -> None:
        self.registered = registered
        self._on_status(registered)
