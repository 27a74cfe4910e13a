"""A cluster in memory that answers as a real API server does, for tests and for plans.

    cluster = FakeCluster()
    await cluster.create(NODES, {"metadata": {"name": "n1"}})

Versions, conflicts, patches, selectors, finalizers, bindings and watches (with history, compaction and
bookmarks) behave as on the real one, as far as the contract tests ask. What it leaves out: controllers,
most validation, and what nobody here reads.
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
    """A cluster of which nothing is left when the program ends."""

    def __init__(
        self,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        random: Random | None = None,
        history: int = 10_000,
        bookmark_every: float = 60.0,
    ) -> None:
        self._books = FakeApiServer(now, random or Random(0), history)
        self._bells: set[WatchTimer] = set()
        self._bookmark_every = bookmark_every

    def compact(self) -> None:
        """Forget all history: a watch that is not up to date gets 410."""
        self._books.store.compact(self._books.store.version)

    def disconnect(self) -> None:
        """Break every watch, as a network does."""
        for bell in tuple(self._bells):
            bell.disconnect()

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """Return one object."""
        with self._answering("get", kind, namespace, name):
            return _typed(kind, self._books.found(kind, _key(kind, namespace, name)))

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
        """Return every object, in all namespaces or in one, as of one moment."""
        with self._answering("list", kind, namespace):
            match = self._books.match(kind, namespace, labels, fields)
            self._books.check_reached(resource_version)
            items = tuple(_typed(kind, record) for record in self._books.all(kind, match))
            return Listing(items=items, resource_version=str(self._books.store.version))

    async def create(
        self, kind: Kind[T], body: Body, namespace: str | None = None, *, field_manager: str = _MANAGER
    ) -> T:
        """Make an object and return it as it is kept."""
        document = codec.to_document(kind, body)
        inside = namespace or document.get("metadata", {}).get("namespace")
        with self._answering("create", kind, inside):
            return _typed(kind, self._books.create(kind, _key(kind, inside, "")[0], document, field_manager))

    async def update(
        self, kind: Kind[T], body: Body, namespace: str | None = None, *, field_manager: str = _MANAGER
    ) -> T:
        """Replace an object; with a resource version in its metadata, only if it is still that one."""
        if isinstance(body, Object) and not isinstance(body, Raw) and not kind.whole:
            raise TypeError(
                f"{kind.resource} are read in part only: patch them, or update a Kind.raw() of them"
            )
        document = codec.to_document(kind, body)
        metadata = document.get("metadata", {})
        key = _key(kind, namespace or metadata.get("namespace"), metadata.get("name", ""))
        with self._answering("update", kind, *key):
            return _typed(kind, self._books.update(kind, key, document, field_manager))

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
        """Change some fields of an object; `apply` makes it where there is none."""
        key = _key(kind, namespace, name)
        with self._answering("patch", kind, *key):
            if patch_type == "apply":
                config = codec.to_document(kind, patch)
                record = self._books.apply(kind, key, config, field_manager, force=force, status=status)
                return _typed(kind, record)
            return _typed(kind, self._books.patch(kind, key, patch, patch_type, field_manager, status=status))

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
        """Ask for an object's end, only if it is still the one of this `uid` and `resource_version`."""
        key = _key(kind, namespace, name)
        with self._answering("delete", kind, *key):
            self._books.delete(kind, key, {"uid": uid, "resourceVersion": resource_version}, grace)

    async def bind(self, pod_namespace: str, pod_name: str, pod_uid: str, node: str) -> None:
        """Give a pod to a node, only if it is still the pod of this uid (empty: any) and has no node."""
        with self._answering("create", PODS, pod_namespace, pod_name):
            self._books.bind((pod_namespace, pod_name), pod_uid, node)

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
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield what happens after `resource_version` until `timeout`."""
        store = self._books.store
        with self._answering("watch", kind, namespace), self._bell(timeout, bookmarks, idle) as bell:
            match = self._books.match(kind, namespace, labels, fields)
            version = int(resource_version or 0)
            if not version or send_initial_events:
                version = store.version
                for record in self._books.all(kind, match):
                    yield WatchEvent(type="ADDED", object=_typed(kind, record))
            if send_initial_events:
                yield _bookmark(kind, version, complete=True)
            turn = WakeReason.NEWS
            while turn is not WakeReason.END:
                self._books.check_kept(version)
                for entry in tuple(store.since(version)):
                    version = entry.version
                    if event := watch_event(entry, kind.resource, match):
                        bell.reset_idle()
                        yield WatchEvent(type=event[0], object=_typed(kind, event[1]))
                turn = await bell.wait()
                if turn is not WakeReason.NEWS and bookmarks and version <= store.version:
                    yield _bookmark(kind, version)

    @contextmanager
    def _bell(self, timeout: float | None, bookmarks: bool, idle: float) -> Iterator[WatchTimer]:
        bell = WatchTimer(timeout, self._bookmark_every if bookmarks else None, idle)
        self._bells.add(bell)
        try:
            yield bell
        finally:
            self._bells.discard(bell)

    @contextmanager
    def _answering(self, verb: str, kind: Kind[Any], namespace: str | None, name: str = "") -> Iterator[None]:
        """Say no in the client's words, and wake the watches after what may have been a write."""
        before = self._books.store.version
        try:
            self._books.rules_of(kind)
            yield
        except Refused as no:
            details = StatusDetails(name=no.name, kind=kind.plural, causes=no.causes)
            status = Status(message=str(no), reason=no.reason, code=no.code, details=details)
            raise error_from_status(
                no.code, status, RequestInfo(verb, kind.resource, namespace or "", name), _CONFIG
            ) from None
        if self._books.store.version != before:
            for bell in tuple(self._bells):
                bell.wake()


def _key(kind: Kind[Any], namespace: str | None, name: str) -> Key:
    if kind.namespaced and not namespace:
        raise ValueError(f"{kind.resource} are namespaced: name a namespace")
    return (namespace or "") if kind.namespaced else "", name


def _typed(kind: Kind[T], record: Record) -> T:
    """Return an object as the client would have read it."""
    return codec.decode(kind, codec.encode_plain(record.document))


def _bookmark(kind: Kind[T], version: int, *, complete: bool = False) -> WatchEvent[T]:
    notes = {"annotations": {INITIAL_END: "true"}} if complete else {}
    head = {"kind": kind.name, "apiVersion": kind.api_version}
    document = {**head, "metadata": {"resourceVersion": str(version), **notes}}
    event = codec.decode_event(kind, codec.encode_plain({"type": "BOOKMARK", "object": document}))
    assert isinstance(event, WatchEvent), "only an error is a Status"
    return event
