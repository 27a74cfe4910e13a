"""A fake cluster in memory that behaves as a real API server does, for tests.

    cluster = FakeCluster()
    await cluster.create(NODES, {"metadata": {"name": "n1"}})

Versions, conflicts, patches, selectors, finalizers, bindings and watches (with history, compaction and
bookmarks) behave as on a real server, as far as the contract tests check. It leaves out controllers, most
validation, and fields that no test reads.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from random import Random
from typing import Any, Final

from fairlead.cluster.api import PatchType
from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.http import codec
from fairlead.cluster.http.api_errors import RequestInfo, error_from_status
from fairlead.cluster.http.codec import Body
from fairlead.cluster.kinds import PODS, Kind
from fairlead.cluster.meta import INITIAL_END, Listing, Object, Raw, Status, StatusDetails, T, WatchEvent
from fairlead.cluster.watch.changes import Key
from fairlead.compat.times import UTC
from tests.fakecluster.apiserver import FakeApiServer
from tests.fakecluster.rules import Refused
from tests.fakecluster.store import Record, watch_event
from tests.fakecluster.watch_timer import WakeReason, WatchTimer

_CONFIG: Final = ClusterConfig(server="memory", source="memory", user="memory")
_MANAGER: Final = "fairlead"


class FakeCluster:
    """A cluster that exists only in this process."""

    def __init__(
        self,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        random: Random | None = None,
        history: int = 10_000,
        bookmark_every: float = 60.0,
    ) -> None:
        self._server = FakeApiServer(now, random or Random(0), history)
        self._timers: set[WatchTimer] = set()
        self._bookmark_every = bookmark_every

    def compact(self) -> None:
        """Drop all history: a watch that is not current gets 410."""
        self._server.store.compact(self._server.store.version)

    def disconnect(self) -> None:
        """Disconnect every watch, as a network failure does."""
        for timer in tuple(self._timers):
            timer.disconnect()

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """Return one object."""
        with self._answering("get", kind, namespace, name):
            return _typed(kind, self._server.get(kind, _key(kind, namespace, name)))

    async def list(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        limit: int = 500,
        resource_version: str | None = None,
    ) -> Listing[T]:
        """Return every object at one resource version, in all namespaces or in one."""
        with self._answering("list", kind, namespace):
            match = self._server.match(kind, namespace, labels, fields)
            self._server.check_reached(resource_version)
            items = tuple(_typed(kind, record) for record in self._server.all(kind, match))
            return Listing(items=items, resource_version=str(self._server.store.version))

    async def create(
        self, kind: Kind[T], body: Body, namespace: str | None = None, *, field_manager: str = _MANAGER
    ) -> T:
        """Create an object and return it as it is stored."""
        document = codec.to_document(kind, body)
        in_namespace = namespace or document.get("metadata", {}).get("namespace")
        with self._answering("create", kind, in_namespace):
            return _typed(
                kind, self._server.create(kind, _key(kind, in_namespace, "")[0], document, field_manager)
            )

    async def update(
        self, kind: Kind[T], body: Body, namespace: str | None = None, *, field_manager: str = _MANAGER
    ) -> T:
        """Replace an object; a resource version in its metadata makes the update conditional on it."""
        if isinstance(body, Object) and not isinstance(body, Raw) and not kind.whole:
            raise TypeError(
                f"{kind.resource} are read in part only: patch them, or update a Kind.raw() of them"
            )
        document = codec.to_document(kind, body)
        metadata = document.get("metadata", {})
        key = _key(kind, namespace or metadata.get("namespace"), metadata.get("name", ""))
        with self._answering("update", kind, *key):
            return _typed(kind, self._server.update(kind, key, document, field_manager))

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        patch_type: PatchType = "merge",
        field_manager: str = _MANAGER,
        force: bool = False,
        status: bool = False,
    ) -> T:
        """Change some fields of an object; `apply` creates the object if it does not exist."""
        key = _key(kind, namespace, name)
        with self._answering("patch", kind, *key):
            if patch_type == "apply":
                config = codec.to_document(kind, patch)
                record = self._server.apply(kind, key, config, field_manager, force=force, status=status)
                return _typed(kind, record)
            return _typed(
                kind, self._server.patch(kind, key, patch, patch_type, field_manager, status=status)
            )

    async def patch_status(
        self,
        kind: Kind[T],
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        patch_type: PatchType = "merge",
        field_manager: str = _MANAGER,
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
            status=True,
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
        key = _key(kind, namespace, name)
        with self._answering("delete", kind, *key):
            self._server.delete(kind, key, {"uid": uid, "resourceVersion": resource_version}, grace)

    async def bind(self, pod_namespace: str, pod_name: str, pod_uid: str, node: str) -> None:
        """Bind a pod to a node if the pod still has this uid (empty: any) and no node."""
        with self._answering("create", PODS, pod_namespace, pod_name):
            self._server.bind((pod_namespace, pod_name), pod_uid, node)

    async def watch(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        resource_version: str = "",
        labels: str | None = None,
        fields: str | None = None,
        bookmarks: bool = True,
        timeout: float | None = None,
        idle: float = 90.0,
        send_initial_events: bool = False,
        on_open: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield the events after `resource_version` until `timeout`."""
        store = self._server.store
        with self._answering("watch", kind, namespace), self._timer(timeout, bookmarks, idle) as timer:
            match = self._server.match(kind, namespace, labels, fields)
            on_open()
            version = int(resource_version or 0)
            if not version or send_initial_events:
                version = store.version
                for record in self._server.all(kind, match):
                    yield WatchEvent(type="ADDED", object=_typed(kind, record))
            if send_initial_events:
                yield _bookmark(kind, version, complete=True)
            reason = WakeReason.EVENT
            while reason is not WakeReason.END:
                self._server.check_kept(version)
                for entry in tuple(store.since(version)):
                    version = entry.version
                    if event := watch_event(entry, kind.resource, match):
                        timer.reset_idle()
                        yield WatchEvent(type=event[0], object=_typed(kind, event[1]))
                reason = await timer.wait()
                if reason is not WakeReason.EVENT and bookmarks and version <= store.version:
                    yield _bookmark(kind, version)

    @contextmanager
    def _timer(self, timeout: float | None, bookmarks: bool, idle: float) -> Iterator[WatchTimer]:
        timer = WatchTimer(timeout, self._bookmark_every if bookmarks else None, idle)
        self._timers.add(timer)
        try:
            yield timer
        finally:
            self._timers.discard(timer)

    @contextmanager
    def _answering(self, verb: str, kind: Kind[Any], namespace: str | None, name: str = "") -> Iterator[None]:
        """Raise a refusal as the client's error, and wake the watches after a write."""
        before = self._server.store.version
        try:
            self._server.rules_of(kind)
            yield
        except Refused as refused:
            details = StatusDetails(name=refused.name, kind=kind.plural, causes=refused.causes)
            status = Status(message=str(refused), reason=refused.reason, code=refused.code, details=details)
            raise error_from_status(
                refused.code, status, RequestInfo(verb, kind.resource, namespace or "", name), _CONFIG
            ) from None
        if self._server.store.version != before:
            for timer in tuple(self._timers):
                timer.wake()


def _key(kind: Kind[Any], namespace: str | None, name: str) -> Key:
    if kind.namespaced and not namespace:
        raise ValueError(f"{kind.resource} are namespaced: name a namespace")
    return (namespace or "") if kind.namespaced else "", name


def _typed(kind: Kind[T], record: Record) -> T:
    """Return an object as the client would decode it."""
    return codec.decode(kind, codec.encode_plain(record.document))


def _bookmark(kind: Kind[T], version: int, *, complete: bool = False) -> WatchEvent[T]:
    annotations = {"annotations": {INITIAL_END: "true"}} if complete else {}
    head = {"kind": kind.name, "apiVersion": kind.api_version}
    document = {**head, "metadata": {"resourceVersion": str(version), **annotations}}
    event = codec.decode_event(kind, codec.encode_plain({"type": "BOOKMARK", "object": document}))
    assert isinstance(event, WatchEvent), "only an error is a Status"
    return event
