"""Perform the effects of a scheduler: send requests to the API server, and count their outcomes."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Protocol

from fairlead.cache.types import CLAIMS, PODS
from fairlead.cluster.http import codec
from fairlead.cluster.kinds import CONFIG_MAPS, LEASES, Kind
from fairlead.cluster.meta import Listing
from fairlead.errors import ClusterError, ClusterUnavailableError
from fairlead.manifest.types.storage import VOLUME_CLAIMS, VOLUMES
from fairlead.serve.machine.flow import Effect
from fairlead.serve.scheduler.effects import ApiRequest, ListObjects

_LISTED: Final[Mapping[str, Kind[Any]]] = {each.plural: each for each in (CLAIMS, PODS)}
_KINDS: Final = (CLAIMS.plural, VOLUME_CLAIMS.plural, VOLUMES.plural, LEASES.plural, CONFIG_MAPS.plural)


class RequestClient(Protocol):
    """The methods of the client that the performer uses."""

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = ...
    ) -> bytes:
        """Send a request, and return the body of the response."""

    async def list(self, kind: Kind[Any]) -> Listing[Any]:
        """Return every object of a kind."""


class Performer:
    """Sends requests, a bounded number at once."""

    def __init__(self, client: RequestClient, in_flight: int) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(in_flight)
        self.count: Counter[tuple[str, str]] = Counter()
        """Requests by resource and outcome."""

    async def perform(self, effect: Effect) -> Any:
        """Perform an effect, and return its answer; a request that times out may have taken effect."""
        if isinstance(effect, ListObjects):
            return (await self._client.list(_LISTED[effect.plural])).items
        assert isinstance(effect, ApiRequest), effect
        if effect.within is None:
            async with self._slots:
                return await self._send(effect)
        try:
            async with asyncio.timeout(effect.within):  # a request for the Lease waits for no other request
                return await self._send(effect)
        except TimeoutError:
            error = ClusterUnavailableError("the API server did not answer in time")
            error.maybe_done = True
            raise error from None

    async def _send(self, request: ApiRequest) -> bytes:
        outcome = "failed"
        body = codec.encode_plain(request.body) if request.body else None
        try:
            answer = await self._client.request(
                request.method, request.path, body=body, content_type=request.content_type
            )
            outcome = "done"
            return answer
        except ClusterError as error:
            outcome = error.reason or type(error).__name__.removesuffix("Error")
            raise
        finally:
            self.count[resource(request), outcome] += 1


def resource(request: ApiRequest) -> str:
    """Return the resource that a request writes, as metrics name it: `pods/binding`, `resourceclaims`."""
    last = request.path.rpartition("/")[2]
    kind = next((each for each in _KINDS if f"/{each}" in request.path), PODS.plural)
    return f"{kind}/{last}" if last in ("status", "binding", "eviction") else kind
