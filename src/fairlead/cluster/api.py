"""The interface of a cluster. `Client` talks to a real API server; tests use a fake cluster in memory.

Both pass the same contract (tests/cluster/contract), so a scenario that works on one works on the other.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Any, Literal, Protocol

from fairlead.cluster.http.codec import Body
from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Listing, T, WatchEvent

PatchType = Literal["merge", "json", "strategic", "apply"]
"""The patch formats: JSON merge patch (RFC 7386), JSON patch (RFC 6902), and Kubernetes' own two."""


class ClusterClient(Protocol):
    """Read, write and watch objects. A refused request raises one of the errors of `fairlead.errors`."""

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """Return one object."""

    async def list(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        limit: int = ...,
        resource_version: str | None = None,
    ) -> Listing[T]:
        """Return every object at one resource version, in all namespaces or in one."""

    async def create(
        self, kind: Kind[T], body: Body, namespace: str | None = None, *, field_manager: str = ...
    ) -> T:
        """Create an object and return it as the server stored it."""

    async def update(
        self, kind: Kind[T], body: Body, namespace: str | None = None, *, field_manager: str = ...
    ) -> T:
        """Replace an object; a resource version in its metadata makes the update conditional on it."""

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        patch_type: PatchType = ...,
        field_manager: str = ...,
        force: bool = False,
    ) -> T:
        """Change some fields of an object; `apply` creates the object if it does not exist."""

    async def patch_status(
        self,
        kind: Kind[T],
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        patch_type: PatchType = ...,
        field_manager: str = ...,
        force: bool = False,
    ) -> T:
        """Change some fields of an object's status."""

    async def delete(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace: int | None = None,
    ) -> None:
        """Delete an object; `uid` and `resource_version` are preconditions."""

    async def bind(self, pod_namespace: str, pod_name: str, pod_uid: str, node: str) -> None:
        """Bind a pod to a node if the pod still has this uid (empty: any) and no node."""

    def watch(  # noqa: PLR0913 - these are the API's own parameters
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        resource_version: str = "",
        labels: str | None = None,
        fields: str | None = None,
        bookmarks: bool = True,
        timeout: float | None = None,
        idle: float = ...,
        send_initial_events: bool = False,
        on_open: Callable[[], None] = ...,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield the events after `resource_version`; close the generator (contextlib.aclosing) to stop."""
