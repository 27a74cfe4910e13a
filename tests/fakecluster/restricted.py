"""A fake cluster that refuses to list some kinds."""

from typing import Any

from fairlead.cluster.kinds import Kind
from tests.fakecluster.cluster import FakeCluster


class RestrictedCluster:
    """A cluster that raises an error for lists of some kinds."""

    def __init__(self, cluster: FakeCluster, refuses: dict[str, Exception]) -> None:
        self._cluster = cluster
        self._refuses = refuses

    async def list(self, kind: Kind[Any], *arguments: Any, **options: Any) -> Any:
        if kind.plural in self._refuses:
            raise self._refuses[kind.plural]
        return await self._cluster.list(kind, *arguments, **options)
