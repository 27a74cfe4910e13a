"""What programs ask of a cluster. `Client` is the real one, `Memory` the one for tests and plans.

Both pass the same contract (tests/cluster/contract), so that what works on one works on the other.
"""

from collections.abc import AsyncGenerator
from typing import Any, Literal, Protocol

from fairlead.cluster.http.codec import Body
from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Listing, T, WatchEvent

PatchType = Literal["merge", "json", "strategic", "apply"]
"""The ways to write down a change: RFC 7386, RFC 6902, and Kubernetes' own two."""


class ClusterClient(Protocol):
    """Objects to read, write and follow. Every no is one of the errors of `fairlead.errors`."""

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
        """Return every object, in all namespaces or in one, as of one moment."""

    async def create(
        self, kind: Kind[T], body: Body, namespace: str | None = None, *, field_manager: str = ...
    ) -> T:
        """Make an object and return it as it is kept."""

    async def update(
        self, kind: Kind[T], body: Body, namespace: str | None = None, *, field_manager: str = ...
    ) -> T:
        """Replace an object; with a resource version in its metadata, only if it is still that one."""

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
        """Change some fields of an object; `apply` makes it where there is none."""

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
        """Ask for an object's end, only if it is still the one of this `uid` and `resource_version`."""

    async def bind(self, pod_namespace: str, pod_name: str, pod_uid: str, node: str) -> None:
        """Give a pod to a node, only if it is still the pod of this uid (empty: any) and has no node."""

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
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield what happens after `resource_version`; close the generator (contextlib.aclosing) to stop."""
