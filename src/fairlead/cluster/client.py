"""A thin asynchronous Kubernetes client: typed objects in and out, errors by what resolves them.

    async with Client.connect(kubeconfig.load()) as client:
        pods = await client.list(PODS, fields="spec.nodeName=")
        async for event in client.watch(PODS, resource_version=pods.resource_version): ...

A read is retried when the connection breaks; a write that the server may have executed never is.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from fairlead.cluster.api import PatchType
from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.http import codec
from fairlead.cluster.http.api_errors import RequestInfo, error_from_status
from fairlead.cluster.http.codec import Body
from fairlead.cluster.http.request import HttpRequest
from fairlead.cluster.kinds import PODS, Kind
from fairlead.cluster.meta import Listing, Object, Raw, ServerVersion, Status, T, WatchEvent
from fairlead.errors import ClusterError, ClusterUnavailableError, GoneError, MissingApiError, NotFoundError

if TYPE_CHECKING:
    from fairlead.cluster.http.one_shot import OneShotTransport
    from fairlead.cluster.http.transport import Transport

FIELD_MANAGER: Final = "fairlead"
"""The field manager under which the server records the fields that this program sets."""
PAGE_SIZE: Final = 500
IDLE_TIMEOUT: Final = 90.0
"""Seconds without an event after which a watch is dead: the server sends a bookmark about every 60."""
_STREAMED_LIST: Final = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
_PATCH_CONTENT_TYPES: Final[Mapping[str, str]] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",  # JSON is YAML
}


class Client:
    """A connection to one cluster; safe to share between tasks."""

    def __init__(self, transport: "Transport | OneShotTransport") -> None:
        self._transport = transport

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        config: ClusterConfig,
        *,
        connections: int = 64,
        compress: bool | None = None,
        read_timeout: float | None = None,
    ) -> AsyncIterator["Client"]:
        """Open a client; it connects with the first request.

        At most `connections` requests are in flight at once, watches not counted. Responses are compressed
        unless the server is on this machine, where compression only costs time; `compress` overrides this.
        A response without a byte for `read_timeout` seconds fails; watches have their own timeout.
        """
        from fairlead.cluster.http.transport import Transport  # noqa: PLC0415 - slow; connect_once avoids it

        async with Transport.open(
            config, connections=connections, compress=compress, read_timeout=read_timeout
        ) as transport:
            yield cls(transport)

    @classmethod
    @asynccontextmanager
    async def connect_once(cls, config: ClusterConfig) -> AsyncIterator["Client"]:
        """Open a client for a program that sends two or three requests and ends: it starts much sooner."""
        from fairlead.cluster.http.one_shot import OneShotTransport  # noqa: PLC0415 - used here only

        async with OneShotTransport.open(config) as transport:
            yield cls(transport)

    @property
    def config(self) -> ClusterConfig:
        """The cluster's address and this client's credentials."""
        return self._transport.config

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """Return one object."""
        info = _request_info("get", kind, namespace, name)
        return codec.decode(
            kind, await self._transport.send(HttpRequest("GET", _path(kind, namespace, name)), info)
        )

    async def list(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        limit: int = PAGE_SIZE,
        resource_version: str | None = None,
    ) -> Listing[T]:
        """Return every object at one resource version, in all namespaces or in one.

        The list is fetched in pages of `limit` objects (0: all at once). `resource_version` is the oldest
        version to accept; "0" accepts whatever the server has in its watch cache.
        """
        query = {"labelSelector": labels, "fieldSelector": fields, "resourceVersion": resource_version}
        if resource_version:
            query["resourceVersionMatch"] = "NotOlderThan"
        try:
            return await self._list_pages(kind, namespace, query, limit)
        except GoneError:
            if not limit:
                raise
            # The server compacted the version of the first page before the last one was read. A list in one
            # page needs no version to be kept.
            return await self._list_pages(kind, namespace, query, 0)

    async def _list_pages(
        self, kind: Kind[T], namespace: str | None, query: Mapping[str, str | None], limit: int
    ) -> Listing[T]:
        info, path = _request_info("list", kind, namespace), kind.path(namespace)
        extent = {"limit": str(limit)} if limit else {}
        items: list[T] = []
        request = HttpRequest("GET", path, {**query, **extent})
        while True:
            page = codec.decode_page(kind, await self._transport.send(request, info))
            items += page.items
            if not page.next:
                return Listing(items=tuple(items), resource_version=page.resource_version)
            request = HttpRequest(
                "GET",
                path,
                {
                    **query,
                    **extent,
                    "resourceVersion": None,
                    "resourceVersionMatch": None,
                    "continue": page.next,
                },
            )

    async def create(
        self, kind: Kind[T], body: Body, namespace: str | None = None, *, field_manager: str = FIELD_MANAGER
    ) -> T:
        """Create an object and return it as the server stored it; its metadata may name the namespace."""
        document = codec.to_document(kind, body)
        in_namespace = namespace or document.get("metadata", {}).get("namespace")
        info = _request_info("create", kind, in_namespace, document.get("metadata", {}).get("name", ""))
        request = HttpRequest(
            "POST", _path(kind, in_namespace), {"fieldManager": field_manager}, codec.encode_plain(document)
        )
        return codec.decode(kind, await self._transport.send(request, info))

    async def update(
        self, kind: Kind[T], body: Body, namespace: str | None = None, *, field_manager: str = FIELD_MANAGER
    ) -> T:
        """Replace an object; a resource version in its metadata makes the update conditional on it.

        The kind's type must have every field of the object: an update erases the fields that it leaves out.
        """
        if isinstance(body, Object) and not isinstance(body, Raw) and not kind.whole:
            raise TypeError(
                f"{kind.resource} are read in part only: patch them, or update a Kind.raw() of them"
            )
        document = codec.to_document(kind, body)
        metadata = document.get("metadata", {})
        name, in_namespace = metadata.get("name", ""), namespace or metadata.get("namespace")
        request = HttpRequest(
            "PUT",
            _path(kind, in_namespace, name),
            {"fieldManager": field_manager},
            codec.encode_plain(document),
        )
        return codec.decode(
            kind, await self._transport.send(request, _request_info("update", kind, in_namespace, name))
        )

    async def patch(  # noqa: PLR0913 - these are the API's own parameters
        self,
        kind: Kind[T],
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        patch_type: PatchType = "merge",
        field_manager: str = FIELD_MANAGER,
        force: bool = False,
        sub: str = "",
    ) -> T:
        """Change some fields of an object.

        `apply` creates the object if it does not exist, and with `force` takes over fields of other
        managers. A resource version in a merge patch's metadata makes the patch conditional.
        """
        query = {"fieldManager": field_manager, "force": "true" if force and patch_type == "apply" else None}
        if patch_type == "apply":
            patch = codec.to_document(kind, patch)
        request = HttpRequest(
            "PATCH",
            _path(kind, namespace, name, sub),
            query,
            codec.encode_plain(patch),
            _PATCH_CONTENT_TYPES[patch_type],
        )
        info = _request_info("patch", kind, namespace, name, sub)
        return codec.decode(kind, await self._transport.send(request, info))

    async def patch_status(
        self,
        kind: Kind[T],
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        patch_type: PatchType = "merge",
        field_manager: str = FIELD_MANAGER,
        force: bool = False,
    ) -> T:
        """Change some fields of an object's status."""
        return await self.patch(
            kind,
            name,
            patch,
            namespace,
            patch_type=patch_type,
            field_manager=field_manager,
            force=force,
            sub="status",
        )

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
        only_if = {"uid": uid, "resourceVersion": resource_version}
        options = {"gracePeriodSeconds": grace, "preconditions": codec.without_nulls(only_if) or None}
        request = HttpRequest("DELETE", _path(kind, namespace, name), body=_delete_options(options))
        await self._transport.send(request, _request_info("delete", kind, namespace, name))

    async def delete_collection(
        self,
        kind: Kind[Any],
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        grace: int | None = None,
    ) -> None:
        """Delete every object that the selectors match."""
        query = {"labelSelector": labels, "fieldSelector": fields}
        request = HttpRequest(
            "DELETE", kind.path(namespace), query, _delete_options({"gracePeriodSeconds": grace})
        )
        await self._transport.send(request, _request_info("deletecollection", kind, namespace))

    async def bind(self, pod_namespace: str, pod_name: str, pod_uid: str, node: str) -> None:
        """Bind a pod to a node if the pod still has this uid (empty: any) and no node.

        The body of a successful response is not read: nothing in it may turn a binding that took effect
        into an error. If the response is lost, the client reads the pod to learn whether it is bound.
        """
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod_name, "namespace": pod_namespace, "uid": pod_uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        request = HttpRequest(
            "POST", PODS.path(pod_namespace, pod_name, "binding"), body=codec.encode_plain(body)
        )
        try:
            await self._transport.send(
                request, _request_info("create", PODS, pod_namespace, pod_name, "binding")
            )
        except ClusterUnavailableError as error:
            if not error.maybe_done or not await self._is_bound(pod_namespace, pod_name, pod_uid, node):
                raise

    async def _is_bound(self, namespace: str, name: str, uid: str, node: str) -> bool:
        try:
            pod = await self.get(PODS, name, namespace)
        except ClusterError:
            return False
        return pod.spec.node_name == node and uid in ("", pod.metadata.uid)

    async def watch(  # noqa: PLR0913 - these are the API's own parameters
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        resource_version: str = "",
        labels: str | None = None,
        fields: str | None = None,
        bookmarks: bool = True,
        timeout: float | None = None,
        idle: float = IDLE_TIMEOUT,
        send_initial_events: bool = False,
        on_open: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield the events after `resource_version` until the server ends the watch (after `timeout`).

        `on_open` is called once the server has accepted it; the first event may come a minute later.
        With `send_initial_events` every existing object comes first, as ADDED, up to a bookmark whose
        `initial_end` is true. `idle` seconds without a byte, or a broken stream, raise
        ClusterUnavailableError; a version that is no longer kept, GoneError. contextlib.aclosing stops it.
        """
        query = {
            "watch": "true",
            "labelSelector": labels,
            "fieldSelector": fields,
            "resourceVersion": resource_version or None,
            "allowWatchBookmarks": "true" if bookmarks or send_initial_events else None,
            "timeoutSeconds": str(max(1, round(timeout))) if timeout is not None else None,
            **(_STREAMED_LIST if send_initial_events else {}),
        }
        info = _request_info("watch", kind, namespace)
        request = HttpRequest("GET", kind.path(namespace), query, live=True)
        async with self._transport.stream(request, info, idle) as batches:
            on_open()
            async for lines in batches:
                for line in lines:
                    event = codec.decode_event(kind, line)
                    if isinstance(event, Status):
                        raise error_from_status(event.code, event, info, self.config)
                    yield event

    async def version(self) -> ServerVersion:
        """Return the server's version."""
        data = await self._transport.send(HttpRequest("GET", "/version"), RequestInfo("get", "/version"))
        return codec.decode_version(data)

    async def serves(self, group: str, version: str) -> bool:
        """Return whether the server serves this version of an API group."""
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            await self._transport.send(HttpRequest("GET", path), RequestInfo("get", path))
        except (MissingApiError, NotFoundError):
            return False
        return True

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | None] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Send any other request and return the body of the response."""
        request = HttpRequest(method, path, query or {}, body, content_type)
        return await self._transport.send(request, RequestInfo(method.lower(), path))


def _path(kind: Kind[Any], namespace: str | None, name: str = "", sub: str = "") -> str:
    if kind.namespaced and not namespace:
        raise ValueError(f"{kind.resource} are namespaced: name a namespace")
    return kind.path(namespace, name, sub)


def _request_info(
    verb: str, kind: Kind[Any], namespace: str | None, name: str = "", sub: str = ""
) -> RequestInfo:
    resource = f"{kind.plural}/{sub}" if sub else kind.plural
    return RequestInfo(verb, f"{resource}.{kind.group}" if kind.group else resource, namespace or "", name)


def _delete_options(options: Mapping[str, Any]) -> bytes:
    return codec.encode_plain({"apiVersion": "v1", "kind": "DeleteOptions", **codec.without_nulls(options)})
