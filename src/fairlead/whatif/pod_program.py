"""Read a page of a pod: through the API server, else directly.

The API server knows the pod by its name, and removes the user's credential. An address can belong to another
machine where the command runs: a reader checks that the answer is from the pod that was asked.
"""

import asyncio
import http.client
from dataclasses import dataclass
from typing import Final

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import PODS
from fairlead.compat.aio import timeout
from fairlead.errors import AccessError, ClusterError

_TIMEOUT: Final = 4.0
"""Seconds; a scheduler's leader itself stops after two."""
_LIMIT: Final = 4 << 20
"""The most bytes of an answer."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why there is no answer from a pod."""

    reason: str


@dataclass(frozen=True, slots=True)
class PodProgram:
    """A program in a pod, and where it serves pages."""

    program: str
    """In a sentence: `the leader`."""
    pod: str
    """`namespace/name:port`; empty if the program is not in a pod."""
    address: str
    """`ip:port`; empty if it is not known."""

    async def read(self, client: Client, path: str) -> bytes | NoAnswer:
        """Return the page of a path."""
        answer: bytes | NoAnswer = NoAnswer(f"{self.program} has no address")
        if self.pod:
            answer = await self._through_api_server(client, path)
        if isinstance(answer, NoAnswer) and self.address:
            direct = await asyncio.to_thread(self.read_directly, path)
            answer = direct if isinstance(direct, bytes) or not self.pod else answer
        return answer

    async def _through_api_server(self, client: Client, path: str) -> bytes | NoAnswer:
        namespace, _, name = self.pod.partition("/")
        try:
            async with timeout(_TIMEOUT):
                return await client.request("GET", f"{PODS.path(namespace)}/{name}/proxy/{path}")
        except AccessError:
            return NoAnswer(
                f"asking {self.program} {self.pod} needs the right to get pods/proxy in {namespace}"
            )
        except TimeoutError:
            return NoAnswer(f"{self.program} {self.pod} did not answer within {_TIMEOUT:.0f} s")
        except ClusterError as error:
            return NoAnswer(f"{self.program} {self.pod} could not be reached: {error}")

    def read_directly(self, path: str) -> bytes | NoAnswer:
        """Return the page of a path, from the address; this blocks."""
        try:
            connection = http.client.HTTPConnection(self.address, timeout=_TIMEOUT)
            try:
                connection.request("GET", f"/{path}")
                answer = connection.getresponse()
                body = answer.read(_LIMIT)
            finally:
                connection.close()
        except (OSError, ValueError, http.client.HTTPException) as error:
            return NoAnswer(f"{self.program} at {self.address} could not be reached: {error}")
        if answer.status != http.HTTPStatus.OK:
            text = body[:200].decode(errors="replace").strip()
            return NoAnswer(f"{self.program} at {self.address} answered: {text}")
        return body
