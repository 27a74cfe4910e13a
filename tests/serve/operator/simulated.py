"""Replicas of the operator on a model of the API server: the test is their driver, network and clock.

Each replica is the state machine that is shipped; the test delivers its watches and performs its effects, in
any order, or loses them.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any, Literal

from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.http import codec
from fairlead.cluster.http.api_errors import RequestInfo, error_from_status
from fairlead.cluster.kinds import CRDS, KINDS, Kind
from fairlead.cluster.meta import Raw, Status, StatusDetails
from fairlead.cluster.watch.changes import Key, ObjectChange, changes_between
from fairlead.compat.times import UTC
from fairlead.errors import ClusterError, ClusterUnavailableError
from fairlead.reconcile import PodPage, ResourceController
from fairlead.serve.machine.events import Start, Stop, Tick
from fairlead.serve.machine.flow import Answered, Effect, Log, Sleep
from fairlead.serve.machine.requests import ApiRequest, Get, QueriedRequest
from fairlead.serve.operator.driver import followed
from fairlead.serve.operator.kinds import client_kind
from fairlead.serve.operator.machine import CachesSynced, Event, OperatorMachine
from fairlead.serve.operator.pages import ReadPage
from fairlead.serve.operator.reconciler import Decide
from fairlead.settings.leader import LeaderElectionConfig
from fairlead.settings.operator import OperatorSettings
from tests.fakecluster.apiserver import FakeApiServer
from tests.fakecluster.rules import Refused
from tests.fakecluster.store import Record, watch_event
from tests.serve.operator.widgets import WIDGETS, WidgetController, definition

Document = dict[str, Any]
Fate = Literal["done", "lost", "failed", "late"]
"""A request that is `lost` takes effect and is not answered; one that is `late` takes effect later."""
LEASE = LeaderElectionConfig("default", "fairlead-operator", duration=15.0, deadline=10.0)
_PATH = re.compile(
    r"/apis?(?:/(?P<group>[^/]+))?/v[^/]+(?:/namespaces/(?P<ns>[^/]+)(?=/))?/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+)(?:/(?P<sub>[^/]+))?)?$"
)
_TYPES = {
    "application/merge-patch+json": "merge",
    "application/apply-patch+yaml": "apply",
}
_CONFIG = ClusterConfig(server="model", source="model", user="model")
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


class ModelApi:
    """The API server of the fake cluster, below requests as a machine sends them."""

    def __init__(self) -> None:
        self.server = FakeApiServer(lambda: _NOW, Random(0), 1_000_000)
        self.server.create(CRDS, "", definition(), "test")
        kinds = [*(kind.raw() for kind in KINDS.values()), client_kind(WIDGETS)]
        self.kinds: dict[str, Kind[Raw]] = {kind.resource: kind for kind in kinds}
        self.writes: list[tuple[str, str]] = []
        """Methods and paths of requests to write, those for Leases and events left out."""
        self.pages: dict[PodPage, tuple[bytes, str]] = {}
        """What pods answer; others do not."""
        self.reads: list[PodPage] = []

    def send(self, request: ApiRequest) -> bytes:
        """Answer a request of a machine."""
        query = request.query if isinstance(request, QueriedRequest) else {}
        return self.request(request.method, request.path, request.body, request.content_type, query)

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        content_type: str = "",
        query: Mapping[str, str] | None = None,
    ) -> bytes:
        """Answer a request as the API server does; raise its error."""
        match = _PATH.match(path)
        assert match, path
        resource = f"{match['plural']}.{match['group']}" if match["group"] else match["plural"]
        kind, key = self.kinds[resource], (match["ns"] or "", match["name"] or "")
        if method != "GET" and kind.plural not in ("leases", "events"):
            self.writes.append((method, path))
        try:
            record = self._answer(method, kind, key, match["sub"], body or {}, content_type, query or {})
        except Refused as refused:
            details = StatusDetails(name=refused.name, kind=resource)
            status = Status(code=refused.code, reason=refused.reason, message=str(refused), details=details)
            raise error_from_status(refused.code, status, RequestInfo(method, path), _CONFIG) from None
        return json.dumps(shown(kind, record)).encode()

    def _answer(
        self,
        method: str,
        kind: Kind[Raw],
        key: Key,
        sub: str | None,
        body: Mapping[str, Any],
        content_type: str,
        query: Mapping[str, str],
    ) -> Record:
        server, manager, status = self.server, query.get("fieldManager", "fairlead"), sub == "status"
        if method == "GET":
            return server.get(kind, key)
        if method == "POST":
            return server.create(kind, key[0], dict(body), manager)
        if method == "PUT":
            return server.update(kind, key, dict(body), manager)
        if method == "DELETE":
            record = server.get(kind, key)
            server.delete(kind, key, body.get("preconditions", {}), None)
            return record
        if _TYPES[content_type] == "apply":
            force = query.get("force") == "true"
            return server.apply(kind, key, dict(body), manager, force=force, status=status)
        return server.patch(kind, key, dict(body), _TYPES[content_type], manager, status=status)

    def all(self, plural: str) -> dict[str, Document]:
        """Return every object of a kind by its name."""
        kind = next(kind for kind in self.kinds.values() if kind.plural == plural)
        records = self.server.all(kind, lambda _: True)
        return {record.metadata["name"]: dict(record.document) for record in records}

    def collect_garbage(self) -> None:
        """Delete objects whose controller is gone, as Kubernetes does."""
        alive = {one["metadata"]["uid"] for one in self.all("widgets").values()}
        for plural in ("configmaps", "pods"):
            for name, document in self.all(plural).items():
                owners = document["metadata"].get("ownerReferences", ())
                if owners and owners[0]["uid"] not in alive:
                    self.server.delete(self.kinds[plural], ("default", name), {}, 0)


def shown(kind: Kind[Raw], record: Record) -> Document:
    """Return an object as the API server shows it, with its managed fields."""
    entries = []
    for owner, paths in record.owners.items():
        manager, _, update = owner.partition(" (")
        fields: Document = {}
        for path in paths:
            below = fields
            for step in path:
                name = f"k:{json.dumps(dict([step]))}" if isinstance(step, tuple) else f"f:{step}"
                below = below.setdefault(name, {})
        operation = "Update" if update else "Apply"
        entries.append({"manager": manager, "operation": operation, "fieldsV1": fields})
    head = {"apiVersion": kind.api_version, "kind": kind.name}
    return {**head, **record.document, "metadata": {**record.metadata, "managedFields": entries}}


@dataclass(eq=False)
class Replica:
    """One replica, its watches, and its effects in flight."""

    api: ModelApi
    name: str
    clock: "Clock"
    controllers: list[ResourceController] = field(default_factory=lambda: [WidgetController()])
    pending: list[Effect] = field(default_factory=list)
    sleeping: list[tuple[float, Effect]] = field(default_factory=list)
    late: list[ApiRequest] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    alive: bool = True
    _position: int = 0
    _objects: dict[tuple[str, Key], Raw] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = OperatorSettings(self.name, lease=LEASE)
        self.machine = OperatorMachine(self.controllers, settings)
        kinds, selectors = followed(self.controllers)
        self._kinds = [client_kind(kind) for kind in kinds]
        self._selectors = selectors
        self.feed(Start(self.clock.now, self.name))
        self.watch()
        self.feed(CachesSynced())

    @property
    def leads(self) -> bool:
        """Whether it leads, by its own clock."""
        self.feed(Tick(self.clock.now))
        return self.machine.term is not None

    def feed(self, event: Event) -> None:
        """Handle an event."""
        for effect in self.machine.handle(event, self.clock.now):
            if isinstance(effect, Log):
                self.lines.append(effect.line)
            elif isinstance(effect, Sleep):
                self.sleeping.append((self.clock.now + effect.seconds, effect))
            else:
                self.pending.append(effect)

    def watch(self) -> None:
        """Receive every change since the last one."""
        store = self.api.server.store
        for entry in list(store.since(self._position)):
            for kind in self._kinds:
                match = self.api.server.match(kind, None, self._selectors.get(kind.resource), None)
                event = watch_event(entry, kind.resource, match)
                if event is not None:
                    self._receive(kind, *event)
        self._position = store.version

    def _receive(self, kind: Kind[Raw], what: str, record: Record) -> None:
        item = codec.decode(kind, json.dumps(shown(kind, record)).encode())
        place = (kind.resource, item.key)
        old = self._objects.pop(place, None)
        new = None if what == "DELETED" else item
        if new is not None:
            self._objects[place] = new
        changes: list[ObjectChange[Raw]] = changes_between(old, new)
        for change in changes:
            self.feed(change)

    def perform(self, number: int = 0, fate: Fate = "done") -> None:
        """Perform one of the effects in flight."""
        effect = self.pending.pop(number)
        if isinstance(effect, Decide):
            try:
                answer: Any = effect.controller.reconcile(effect.observed)
            except RuntimeError as error:
                answer = str(error)
            self.feed(Answered(effect.id, answer))
            return
        if isinstance(effect, ReadPage):
            self.api.reads.append(effect.page)
            self.feed(Answered(effect.id, self.api.pages.get(effect.page, (b"", "refused"))))
            return
        assert isinstance(effect, ApiRequest)
        self.feed(self._answered(effect, fate))

    def _answered(self, effect: ApiRequest, fate: Fate) -> Answered:
        away = ClusterUnavailableError("the connection broke")
        if fate == "late":
            self.late.append(effect)
        if fate in ("late", "failed"):
            return Answered(effect.id, error=away)
        try:
            answer = self.api.send(effect)
        except ClusterError as error:
            return Answered(effect.id, error=error)
        return Answered(effect.id, error=away) if fate == "lost" else Answered(effect.id, answer)

    def arrive(self) -> None:
        """Let the late requests arrive."""
        late, self.late = self.late, []
        for request in late:
            if not isinstance(request, Get):
                try:
                    self.api.send(request)
                except ClusterError:
                    continue

    def wake(self) -> None:
        """Pass the time to the machine."""
        due = [one for one in self.sleeping if one[0] <= self.clock.now]
        for one in due:
            self.sleeping.remove(one)
            self.feed(Answered(one[1].id))
        self.feed(Tick(self.clock.now))

    def stop(self) -> None:
        """Ask the replica to stop."""
        self.feed(Stop())


@dataclass
class Clock:
    """The time of all replicas."""

    now: float = 1000.0


class World:
    """An API server and the replicas before it."""

    def __init__(self, *names: str, controllers: list[ResourceController] | None = None) -> None:
        self.api = ModelApi()
        self.clock = Clock()
        self.replicas: list[Replica] = []
        for name in names or ("one",):
            self.start(name, controllers)

    def start(self, name: str, controllers: list[ResourceController] | None = None) -> Replica:
        """Start a replica."""
        replica = Replica(self.api, name, self.clock, controllers or [WidgetController()])
        self.replicas.append(replica)
        return replica

    def kill(self, replica: Replica) -> None:
        """Kill a replica: its requests in flight may still arrive."""
        replica.late += [effect for effect in replica.pending if isinstance(effect, ApiRequest)]
        replica.pending.clear()
        replica.alive = False

    def running(self) -> list[Replica]:
        """Return the replicas that were not killed."""
        return [replica for replica in self.replicas if replica.alive]

    def settle(self, seconds: float = 60.0) -> None:
        """Let time pass with a working network."""
        until = self.clock.now + seconds
        while self.clock.now < until:
            for replica in self.running():
                self.drain(replica)
            self.api.collect_garbage()
            self.clock.now += 0.5
            for replica in self.running():
                replica.wake()

    def drain(self, replica: Replica) -> None:
        """Deliver what is on its way to and from a replica until nothing is."""
        for _ in range(10_000):
            replica.watch()
            if not replica.pending:
                return
            replica.perform()
        raise AssertionError("a replica never rests")

    # What people do

    def create(self, document: Document) -> None:
        """Create an object as another client."""
        kind = next(kind for kind in self.api.kinds.values() if kind.name == document["kind"])
        self.api.server.create(kind, "default" if kind.namespaced else "", document, "kubectl")

    def edit(self, plural: str, name: str, patch: Document) -> None:
        """Change an object as another client."""
        self.api.server.patch(self._kind(plural), ("default", name), patch, "merge", "kubectl")

    def delete(self, plural: str, name: str) -> None:
        """Delete an object as another client."""
        self.api.server.delete(self._kind(plural), ("default", name), {}, 0)

    def _kind(self, plural: str) -> Kind[Raw]:
        return next(kind for kind in self.api.kinds.values() if kind.plural == plural)
