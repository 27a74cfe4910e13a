"""How a kubelet finds a plugin: it watches a folder, and asks each socket that appears there who it is.

The kubelet comes to us, now and after each of its restarts. So nothing of ours needs the right to connect
to it, and nothing needs to watch whether it is still there.
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
    """What the kubelet said of a registration."""

    ok: bool
    error: str = ""


StatusCallback = Callable[[Registered], None]


class Registration:
    """Says who one plugin is, and hears what the kubelet made of it."""

    def __init__(
        self, kind: str, name: str, endpoint: Path, versions: Sequence[str], told: StatusCallback
    ) -> None:
        self._info = PluginInfo(kind, name, str(endpoint), tuple(versions))
        self._told = told

    def methods(self) -> tuple[Method, ...]:
        """Return what a door must serve."""
        return (
            UnaryMethod(f"{_SERVICE}/GetInfo", Empty, self._get_info),
            UnaryMethod(f"{_SERVICE}/NotifyRegistrationStatus", RegistrationStatus, self._notify),
        )

    async def _get_info(self, _: Empty) -> PluginInfo:
        return self._info

    async def _notify(self, status: RegistrationStatus) -> Empty:
        self._told(Registered(status.plugin_registered, status.error))
        return Empty()


class Registrar:
    """A plugin's two sockets: the endpoint that serves, and the registration that leads a kubelet there."""

    def __init__(
        self,
        endpoint: GrpcServer,
        registry: Path,
        plugin: tuple[str, str, Sequence[str]],
        told: StatusCallback,
        say: Callable[[str], None] = quiet,
    ) -> None:
        kind, name, versions = plugin
        self._endpoint = endpoint
        self._told = told
        self._say = say
        registration = Registration(kind, name, endpoint.path, versions, self._hear)
        self._registration = GrpcServer(registry, registration.methods(), say)
        self.registered: Registered | None = None
        """What the kubelet said last; None before it came."""

    async def open(self) -> None:
        """Open the endpoint, then the registration: whoever finds this finds that."""
        await self._endpoint.open()
        try:
            await self._registration.open()
        except KubeletError:
            await self._endpoint.close()
            raise

    async def reregister(self) -> None:
        """Open the registration anew, which makes the kubelet that watches the folder come again."""
        await self._registration.close()
        try:
            await self._registration.open()
        except KubeletError as error:
            self._say(str(error))

    async def close(self) -> None:
        """Close the registration, at which the kubelet lets go of the plugin, then the endpoint."""
        await self._registration.close()
        await self._endpoint.close()
        self.registered = None

    def _hear(self, registered: Registered) -> None:
        self.registered = registered
        self._told(registered)
