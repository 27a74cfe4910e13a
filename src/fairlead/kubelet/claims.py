"""The DRA plugin: prepares and unprepares the claims of pods."""

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
    """A claim that a kubelet asks to prepare."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A device of a claim, ready for containers."""

    requests: tuple[str, ...]
    """The requests of the claim that the device serves; empty for all."""
    pool: str
    device: str
    cdi: tuple[str, ...]
    """Fully qualified CDI devices that make it available in a container."""
    share: str | None
    """The id of the share, where several claims have the device."""


class Preparer(Protocol):
    """What prepares and unprepares claims; both calls are idempotent."""

    async def prepare(self, claim: KubeletClaim) -> Sequence[Prepared]:
        """Prepare the claim's devices; FairleadError with the reason where that fails."""

    async def unprepare(self, claim: KubeletClaim) -> None:
        """Release the claim's devices; an unknown claim has none."""


class ClaimPlugin:
    """The DRA plugin of this node."""

    def __init__(  # its preparer, its sockets, and its callbacks
        self,
        preparer: Preparer,
        folder: Path,
        registry: Path,
        on_status: Callable[[Registered], None] = quiet,
        *,
        say: Callable[[str], None] = quiet,
    ) -> None:
        self._preparer = preparer
        self._say = say
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        endpoint = GrpcServer(folder / "dra.sock", self._methods(), say)
        plugin = ("DRAPlugin", DRIVER, [f"{version}.DRAPlugin" for version in _VERSIONS])
        self._registrar = Registrar(endpoint, registry / "dra-reg.sock", plugin, on_status, say)

    @property
    def registered(self) -> Registered | None:
        """The kubelet's last registration status; None before the first."""
        return self._registrar.registered

    async def open(self) -> None:
        """Start serving; KubeletError where the sockets cannot be opened."""
        await self._registrar.open()

    async def close(self) -> None:
        """Unregister from the kubelet, and remove the sockets."""
        await self._registrar.close()

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
        results = await self._run_all(request, self._preparer.prepare)
        return wire.NodePrepareResourcesResponse(
            {
                uid: wire.NodePrepareResourceResponse(tuple(map(_device, devices or ())), error)
                for uid, (devices, error) in results.items()
            }
        )

    async def _unprepare(self, request: wire.NodeResourcesRequest) -> wire.NodeUnprepareResourcesResponse:
        results = await self._run_all(request, self._preparer.unprepare)
        return wire.NodeUnprepareResourcesResponse(
            {uid: wire.NodeUnprepareResourceResponse(error) for uid, (_, error) in results.items()}
        )

    async def _run_all(
        self, request: wire.NodeResourcesRequest, operation: Callable[[KubeletClaim], Awaitable[T]]
    ) -> dict[str, tuple[T | None, str]]:
        """Run an operation on all claims concurrently; return each claim's result or error."""
        claims = {claim.uid: KubeletClaim(claim.namespace, claim.name, claim.uid) for claim in request.claims}
        results = await asyncio.gather(*(self._run(claim, operation) for claim in claims.values()))
        return dict(zip(claims, results, strict=True))

    async def _run(
        self, claim: KubeletClaim, operation: Callable[[KubeletClaim], Awaitable[T]]
    ) -> tuple[T | None, str]:
        # After a timeout the kubelet repeats a call while the first one may still run.
        lock = self._locks.setdefault(claim.uid, asyncio.Lock())
        async with lock:
            try:
                return await operation(claim), ""
            except FairleadError as error:
                return None, reason(error)
            except Exception as error:  # noqa: BLE001  # our own fault: it must not fail the other claims
                self._say(f"claim {claim.namespace}/{claim.name}: {error!r}")
                return None, f"{DRIVER} failed on this claim: see the log of the agent"


def _device(prepared: Prepared) -> wire.PreparedDevice:
    return wire.PreparedDevice(
        prepared.requests, prepared.pool, prepared.device, prepared.cdi, prepared.share
    )
