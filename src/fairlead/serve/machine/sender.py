"""Send the requests of a state machine to the API server, a bounded number at once, and count outcomes."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from typing import Final, Protocol

from fairlead.cluster.http import codec
from fairlead.errors import ClusterError, ClusterUnavailableError
from fairlead.serve.machine.requests import ApiRequest, QueriedRequest

_RESOURCE: Final = re.compile(
    r"/apis?(?:/[^/]+)?/v[^/]+(?:/namespaces/[^/]+(?=/))?/(?P<plural>[^/]+)(?:/[^/]+(?:/(?P<sub>[^/]+))?)?$"
)


class RequestClient(Protocol):
    """The method of the client that the sender uses."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | None] | None = None,
        body: bytes | None = None,
        content_type: str = ...,
    ) -> bytes:
        """Send a request, and return the body of the response."""


class RequestSender:
    """Sends requests, a bounded number at once."""

    def __init__(self, client: RequestClient, in_flight: int) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(in_flight)
        self.count: Counter[tuple[str, str]] = Counter()
        """Requests by resource and outcome."""

    async def send(self, request: ApiRequest) -> bytes:
        """Send a request, and return the body of its response; one that times out may have taken effect."""
        if request.within is None:
            async with self._slots:
                return await self._send(request)
        try:
            async with asyncio.timeout(request.within):  # a request for the Lease waits for no other request
                return await self._send(request)
        except TimeoutError:
            error = ClusterUnavailableError("the API server did not answer in time")
            error.maybe_done = True
            raise error from None

    async def _send(self, request: ApiRequest) -> bytes:
        outcome = "failed"
        body = codec.encode_plain(request.body) if request.body else None
        query = request.query if isinstance(request, QueriedRequest) else None
        try:
            answer = await self._client.request(
                request.method, request.path, query=query, body=body, content_type=request.content_type
            )
            outcome = "done"
            return answer
        except ClusterError as error:
            outcome = error.reason or type(error).__name__.removesuffix("Error")
            raise
        finally:
            self.count[resource_of(request), outcome] += 1


def resource_of(request: ApiRequest) -> str:
    """Return the resource of a request, as metrics name it: `pods/binding`, `resourceclaims`."""
    match = _RESOURCE.match(request.path)
    if match is None:
        return "other"
    return f"{match['plural']}/{match['sub']}" if match["sub"] else match["plural"]
