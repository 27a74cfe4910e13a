"""A thin asynchronous Kubernetes client: typed objects in and out, errors sorted by who must act.

    async with Client.connect(kubeconfig.load()) as client:
        pods = await client.list(PODS, fields="spec.nodeName=")
        async for event in client.watch(PODS, resource_version=pods.resource_version): ...

Reads are tried again when the connection breaks; a write that may have been carried out never is.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
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
"""Under which name the server notes the fields that we set."""
PAGE_SIZE: Final = 500
IDLE_TIMEOUT: Final = 90.0
"""Seconds of read_timeout after which a watch is dead: the server sends a bookmark about every 60."""
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
        """Open a client; nothing is sent before the first question.

        At most `connections` requests are under way at once, watches not counted. Answers come compressed
        unless the server is on this machine, where that only costs time; `compress` decides otherwise. After
        `read_timeout` seconds without a byte an answer is given up, watches not counted.
        """
        from fairlead.cluster.http.transport import Transport  # noqa: PLC0415 - not for those who are brief

        async with Transport.open(
            config, connections=connections, compress=compress, read_timeout=read_timeout
        ) as transport:
            yield cls(transport)

    @classmethod
    @asynccontextmanager
    async def connect_once(cls, config: ClusterConfig) -> AsyncIterator["Client"]:
        """Open a client for a program that asks two or three things and ends: it starts much sooner."""
        from fairlead.cluster.http.one_shot import OneShotTransport  # noqa: PLC0415 - for those alone

        async with OneShotTransport.open(config) as transport:
            yield cls(transport)

    @property
    def config(self) -> ClusterConfig:
        """Which cluster this is, and who we are there."""
        return self._transport.config

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """Return one object."""
        asked = _asked("get", kind, namespace, name)
        return codec.decode(
            kind, await self._transport.send(HttpRequest("GET", _path(kind, namespace, name)), asked)
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
        """Return every object, in all namespaces or in one, as of one moment.

        Fetched in pages of `limit` (0: all at once). `resource_version`: no older than this; "0" takes
        what the server has at hand.
        """
        query = {"labelSelector": labels, "fieldSelector": fields, "resourceVersion": resource_version}
        if resource_version:
            query["resourceVersionMatch"] = "NotOlderThan"
        try:
            return await self._pages(kind, namespace, query, limit)
        except GoneError:
            if not limit:
                raise
            # The pages' moment is no longer kept: it took us too long. All at once needs none kept.
            return await self._pages(kind, namespace, query, 0)

    async def _pages(
        self, kind: Kind[T], namespace: str | None, query: Mapping[str, str | None], limit: int
    ) -> Listing[T]:
        asked, path = _asked("list", kind, namespace), kind.path(namespace)
        extent = {"limit": str(limit)} if limit else {}
        items: list[T] = []
        request = HttpRequest("GET", path, {**query, **extent})
        while True:
            page = codec.decode_page(kind, await self._transport.send(request, asked))
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
        """Make an object and return it as the server keeps it; its namespace may stand in its metadata."""
        document = codec.to_document(kind, body)
        inside = namespace or document.get("metadata", {}).get("namespace")
        asked = _asked("create", kind, inside, document.get("metadata", {}).get("name", ""))
        request = HttpRequest(
            "POST", _path(kind, inside), {"fieldManager": field_manager}, codec.encode_plain(document)
        )
        return codec.decode(kind, await self._transport.send(request, asked))

    async def update(
        self, kind: Kind[T], body: Body, namespace: str | None = None, *, field_manager: str = FIELD_MANAGER
    ) -> T:
        """Replace an object; with a resource version in its metadata, only if it is still that one.

        Takes whole objects only: a type that leaves fields out would erase them.
        """
        if isinstance(body, Object) and not isinstance(body, Raw) and not kind.whole:
            raise TypeError(
                f"{kind.resource} are read in part only: patch them, or update a Kind.raw() of them"
            )
        document = codec.to_document(kind, body)
        metadata = document.get("metadata", {})
        name, inside = metadata.get("name", ""), namespace or metadata.get("namespace")
        request = HttpRequest(
            "PUT", _path(kind, inside, name), {"fieldManager": field_manager}, codec.encode_plain(document)
        )
        return codec.decode(kind, await self._transport.send(request, _asked("update", kind, inside, name)))

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

        `apply` makes the object where there is none, and takes fields from other managers with `force`.
        A resource version in a merge patch's metadata makes it conditional.
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
        asked = _asked("patch", kind, namespace, name, sub)
        return codec.decode(kind, await self._transport.send(request, asked))

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
        """Ask for an object's end, only if it is still the one of this `uid` and `resource_version`."""
        only_if = {"uid": uid, "resourceVersion": resource_version}
        options = {"gracePeriodSeconds": grace, "preconditions": codec.without_nulls(only_if) or None}
        request = HttpRequest("DELETE", _path(kind, namespace, name), body=_delete_options(options))
        await self._transport.send(request, _asked("delete", kind, namespace, name))

    async def delete_collection(
        self,
        kind: Kind[Any],
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        grace: int | None = None,
    ) -> None:
        """Ask for the end of every object that the selectors name."""
        query = {"labelSelector": labels, "fieldSelector": fields}
        request = HttpRequest(
            "DELETE", kind.path(namespace), query, _delete_options({"gracePeriodSeconds": grace})
        )
        await self._transport.send(request, _asked("deletecollection", kind, namespace))

    async def bind(self, pod_namespace: str, pod_name: str, pod_uid: str, node: str) -> None:
        """Give a pod to a node, only if it is still the pod of this uid (empty: any) and has no node.

        What the server says after a success is not read: nothing in it may turn a binding that holds into
        an error. Where the answer was lost, the pod itself is asked.
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
            await self._transport.send(request, _asked("create", PODS, pod_namespace, pod_name, "binding"))
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
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield what happens after `resource_version` until the server ends the watch (after `timeout`).

        With `send_initial_events` everything that exists comes first, as ADDED, up to a bookmark whose
        `initial_end` is true. Silence for `idle` seconds, and a stream that is cut, raise ClusterAwayError;
        a version that is no longer kept raises GoneError. Close the generator (contextlib.aclosing) to stop.
        """
        query = {
            "watch": "true",
            "labelSelector": labels,
            "fieldSelector": fields,
            "resourceVersion": resource_version or None,
            "allowWatchBookmarks": "true" if bookmarks or send_initial_events else None,
            "timeoutSeconds": str(max(1, round(timeout))) if timeout is not None else None,
            "sendInitialEvents": "true" if send_initial_events else None,
            "resourceVersionMatch": "NotOlderThan" if send_initial_events else None,
        }
        asked = _asked("watch", kind, namespace)
        request = HttpRequest("GET", kind.path(namespace), query, live=True)
        async with self._transport.stream(request, asked, idle) as batches:
            async for lines in batches:
                for line in lines:
                    event = codec.decode_event(kind, line)
                    if isinstance(event, Status):
                        raise error_from_status(event.code, event, asked, self.config)
                    yield event

    async def version(self) -> ServerVersion:
        """Return what the server is."""
        data = await self._transport.send(HttpRequest("GET", "/version"), RequestInfo("get", "/version"))
        return codec.decode_version(data)

    async def serves(self, group: str, version: str) -> bool:
        """Say whether the server has this version of an API group."""
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
        """Ask anything else and return the answer's bytes."""
        request = HttpRequest(method, path, query or {}, body, content_type)
        return await self._transport.send(request, RequestInfo(method.lower(), path))


def _path(kind: Kind[Any], namespace: str | None, name: str = "", sub: str = "") -> str:
    if kind.namespaced and not namespace:
        raise ValueError(f"{kind.resource} live in namespaces: say which")
    return kind.path(namespace, name, sub)


def _asked(verb: str, kind: Kind[Any], namespace: str | None, name: str = "", sub: str = "") -> RequestInfo:
    resource = f"{kind.plural}/{sub}" if sub else kind.plural
    return RequestInfo(verb, f"{resource}.{kind.group}" if kind.group else resource, namespace or "", name)


def _delete_options(options: Mapping[str, Any]) -> bytes:
    return codec.encode_plain({"apiVersion": "v1", "kind": "DeleteOptions", **codec.without_nulls(options)})
