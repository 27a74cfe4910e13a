"""The last lines of our programs' logs: of containers as they run, and of those that crashed before."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import PODS
from fairlead.dump.archive import DumpBuilder
from fairlead.errors import FairleadError

_BYTES: Final = 1 << 20
"""The most bytes of one log."""


class ContainerLog(NamedTuple):
    """A log of a container."""

    namespace: str
    pod: str
    container: str
    previous: bool = False
    """Of the container before its last restart."""

    @property
    def name(self) -> str:
        """Its name in the archive."""
        end = "previous.log" if self.previous else "log"
        return f"logs/{self.namespace}/{self.pod}/{self.container}.{end}"


def logs_of(pod: Mapping[str, Any]) -> Iterator[ContainerLog]:
    """Yield the logs that a pod has."""
    meta, status = pod["metadata"], pod.get("status", {})
    for each in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        state = each.get("state", {})
        if "running" in state or "terminated" in state:
            yield ContainerLog(meta["namespace"], meta["name"], each["name"])
        if each.get("restartCount", 0):
            yield ContainerLog(meta["namespace"], meta["name"], each["name"], previous=True)


async def read_logs(
    client: Client, pods: Sequence[Mapping[str, Any]], lines: int, builder: DumpBuilder
) -> None:
    """Add the last lines of every log of these pods."""
    for log in [each for pod in pods for each in logs_of(pod)]:
        query = {
            "container": log.container,
            "tailLines": str(lines),
            "limitBytes": str(_BYTES),
            "previous": "true" if log.previous else None,
        }
        try:
            data = await client.request("GET", PODS.path(log.namespace, log.pod, "log"), query=query)
        except FairleadError as error:
            builder.miss(log.name, error)
        else:
            builder.add_text(log.name, data.decode(errors="replace"))
