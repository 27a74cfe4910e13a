"""The DRA plugin: prepares the claims of pods, and lets them go."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar
from weakref import WeakValueDictionary

from fairlead.errors import FairleadError
from fairlead.kubelet import messages as wire
from fairlead.kubelet.registration import Registered, Registrar
from fairlead.kubelet.sockets import GrpcServer, Method, UnaryMethod, quiet, reason
from fairlead.offer import DRIVER

_VERSIONS: Final = ("v1", "v1beta1")
"""Two names of one protocol: kubelets up to 1.33 know only the second."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KubeletClaim:
    """A claim that a kubelet asks for."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A device of a claim, ready for containers."""

    requests: tuple[str, ...]
    """The requests of the claim that it serves; empty for all."""
    pool: str
    device: str
    cdi: tuple[str, ...]
    """Fully qualified CDI devices that bring it into a container."""
    share: str | None
    """Which share of the device this is, where several claims have it."""


class Preparer(Protocol):
    """Who makes a claim's devices ready; both must bear being asked again."""

    async def prepare(self, claim: KubeletClaim) -> Sequence[Prepared]:
        """Make the claim's devices ready; FairleadError with the reason where that cannot be."""

    async def unprepare(self, claim: KubeletClaim) -> None:
        """Let the claim's devices go; one that is not known has none."""


class ClaimPlugin:
    """The DRA plugin of this node."""

    def __init__(  # what it is, where it lives, and who hears of it
        self,
        preparer: Preparer,
        folder: Path,
        registry: Path,
        told: Callable[[Registered], None] = quiet,
        *,
        say: Callable[[str], None] = quiet,
    ) -> None:
        self._preparer = preparer
        self._say = say
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        endpoint = GrpcServer(folder / "dra.sock", self._methods(), say)
        plugin = ("DRAPlugin", DRIVER, [f"{version}.DRAPlugin" for version in _VERSIONS])
        self._entrance = Registrar(endpoint, registry / "dra-reg.sock", plugin, told, say)

    @property
    def registered(self) -> Registered | None:
        """What the kubelet last said of the registration; None before it came."""
        return self._entrance.registered

    async def open(self) -> None:
        """Begin to serve; KubeletError where there is no socket."""
        await self._entrance.open()

    async def close(self) -> None:
        """Have the kubelet let go of the driver, and leave no socket."""
        await self._entrance.close()

    def _methods(self) -> list[Method]:
        methods: list[Method] = []
        for version in _VERSIONS:
            service = f"/k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin"
            methods.append(
                UnaryMethod(f"{service}/NodePrepareResources", wire.NodeResourcesRequest, self._prepare)
            )
            methods.append(
                UnaryMethod(f"{service}/NodeUnprepareResources", wire.NodeResourcesRequest, self._unprepare)
            )
        return methods

    async def _prepare(self, request: wire.NodeResourcesRequest) -> wire.NodePrepareResourcesResponse:
        done = await self._each(request, self._preparer.prepare)
        return wire.NodePrepareResourcesResponse(
            {
                uid: wire.NodePrepareResourceResponse(tuple(map(_device, found or ())), error)
                for uid, (found, error) in done.items()
            }
        )

    async def _unprepare(self, request: wire.NodeResourcesRequest) -> wire.NodeUnprepareResourcesResponse:
        done = await self._each(request, self._preparer.unprepare)
        return wire.NodeUnprepareResourcesResponse(
            {uid: wire.NodeUnprepareResourceResponse(error) for uid, (_, error) in done.items()}
        )

    async def _each(
        self, request: wire.NodeResourcesRequest, deed: Callable[[KubeletClaim], Awaitable[T]]
    ) -> dict[str, tuple[T | None, str]]:
        """Do it to every claim at once; return what came of each, or why nothing did."""
        claims = {claim.uid: KubeletClaim(claim.namespace, claim.name, claim.uid) for claim in request.claims}
        done = await asyncio.gather(*(self._attempt(claim, deed) for claim in claims.values()))
        return dict(zip(claims, done, strict=True))

    async def _attempt(
        self, claim: KubeletClaim, deed: Callable[[KubeletClaim], Awaitable[T]]
    ) -> tuple[T | None, str]:
        # A kubelet that lost patience asks again while we may still be at it.
        turn = self._turns.setdefault(claim.uid, asyncio.Lock())
        async with turn:
            try:
                return await deed(claim), ""
            except FairleadError as error:
                return None, reason(error)
            except Exception as error:  # noqa: BLE001  # a fault of ours: it must not spoil the other claims
                self._say(f"claim {claim.namespace}/{claim.name}: {error!r}")
                return None, f"{DRIVER} failed on this claim: see the log of the agent"


def _device(found: Prepared) -> wire.PreparedDevice:
    return wire.PreparedDevice(found.requests, found.pool, found.device, found.cdi, found.share)
