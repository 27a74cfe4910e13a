"""Perform the effects of a scheduler: send its requests to the API server, and list objects."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from fairlead.cache.types import CLAIMS, PODS
from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Listing
from fairlead.serve.machine import sender
from fairlead.serve.machine.flow import Effect
from fairlead.serve.machine.requests import ApiRequest
from fairlead.serve.machine.sender import RequestSender
from fairlead.serve.scheduler.effects import ListObjects

_LISTED: Final[Mapping[str, Kind[Any]]] = {each.plural: each for each in (CLAIMS, PODS)}


class SchedulerClient(sender.RequestClient, Protocol):
    """The methods of the client that the performer uses."""

    async def list(self, kind: Kind[Any]) -> Listing[Any]:
        """Return every object of a kind."""


class Performer:
    """Sends requests, a bounded number at once."""

    def __init__(self, client: SchedulerClient, in_flight: int) -> None:
        self._client = client
        self._sender = RequestSender(client, in_flight)
        self.count = self._sender.count
        """Requests by resource and outcome."""

    async def perform(self, effect: Effect) -> Any:
        """Perform an effect, and return its answer; a request that times out may have taken effect."""
        if isinstance(effect, ListObjects):
            return (await self._client.list(_LISTED[effect.plural])).items
        assert isinstance(effect, ApiRequest), effect
        return await self._sender.send(effect)
