"""Replicas on a model of the API server, where every effect waits until the test delivers it.

Each replica is the state machine that is shipped; the test is its driver, and can stop anywhere between two
of its effects.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Literal

from fairlead.cache.types import CLAIMS, PODS
from fairlead.catalog import Catalog
from fairlead.cluster.http import codec
from fairlead.cluster.kinds import Kind
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.cluster.watch.reflector import Reflector, WatchTiming
from fairlead.errors import ClusterError, ClusterUnavailableError
from fairlead.manifest.types.storage import VOLUME_CLAIMS, VOLUMES
from fairlead.serve.machine.events import Start, Tick
from fairlead.serve.machine.flow import Answered, Effect, Sleep
from fairlead.serve.machine.recording import encode_effects
from fairlead.serve.machine.requests import ApiRequest
from fairlead.serve.scheduler.effects import ListObjects
from fairlead.serve.scheduler.events import Cycle, Event, Synced
from fairlead.serve.scheduler.machine import SchedulerMachine
from fairlead.settings.leader import LeaderElectionConfig
from fairlead.settings.scheduler import SchedulerSettings
from tests.serve.scheduler.model import Api

KINDS: tuple[Kind[Any], ...] = (PODS, CLAIMS, VOLUME_CLAIMS, VOLUMES)
LEASE = LeaderElectionConfig("default", duration=15.0, deadline=10.0)
WALL = 1.8e9
"""The time of day at the start: after every object's creation."""
Fate = Literal["done", "lost", "late"]
"""A request that is `lost` takes effect and is never answered; one that is `late` takes effect later."""


def lost() -> ClusterUnavailableError:
    """Return the error that the sender of a lost request gets."""
    error = ClusterUnavailableError("the connection broke")
    error.maybe_done = True
    return error


@dataclass(eq=False)
class SentEffect:
    """An effect in flight."""

    owner: "SimulatedReplica"
    effect: Effect


class EffectQueue:
    """Performs effects when the test delivers them."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.in_flight: list[SentEffect] = []
        self.late: list[Callable[[], Any]] = []

    def deliver(self, sent: SentEffect, fate: Fate) -> None:
        """Perform an effect according to its fate, and feed its outcome back."""
        self.in_flight.remove(sent)
        answer: Any = None
        try:
            if fate == "late":
                self.late.append(partial(self._perform, sent))
            else:
                answer = self._perform(sent)
            if fate != "done":
                raise lost()
        except ClusterError as error:
            sent.owner.handle(Answered(sent.effect.id, error=error))
        else:
            sent.owner.handle(Answered(sent.effect.id, answer))

    def arrive(self, number: int) -> None:
        """Perform one of the late requests; no replica gets its answer."""
        late = self.late.pop(number % len(self.late))
        try:
            late()
        except ClusterError:
            return

    def abandon(self, owner: "SimulatedReplica") -> None:
        """Make what a replica has sent late: no replica waits for the answers."""
        for sent in [each for each in self.in_flight if each.owner is owner]:
            self.in_flight.remove(sent)
            self.late.append(partial(self._perform, sent))

    def _perform(self, sent: SentEffect) -> Any:
        effect = sent.owner.sends(sent.effect)
        if isinstance(effect, ListObjects):
            return tuple(self.api.list_objects(PODS if effect.plural == PODS.plural else CLAIMS))
        assert isinstance(effect, ApiRequest), effect
        body = codec.encode_plain(effect.body) if effect.body else None
        return self.api.request(effect.method, effect.path, body, effect.content_type)


def settings_of(name: str) -> SchedulerSettings:
    """Return the settings of a replica that retries a failed binding at once."""
    return SchedulerSettings(name, initial_backoff=0.0, lease=LEASE)


class SimulatedReplica:
    """One replica."""

    def __init__(
        self,
        name: str,
        post: EffectQueue,
        catalog: Catalog,
        clock: Callable[[], float],
        settings: SchedulerSettings | None = None,
    ) -> None:
        self.name = name
        self._effects = post
        self._clock = clock
        self._known: dict[str, Reflector[Any]] = {
            kind.plural: Reflector(WatchTiming(), Random(0)) for kind in KINDS
        }
        self._observed = dict.fromkeys(self._known, 0)
        self.machine = SchedulerMachine(catalog, settings or settings_of(name))
        self.sleeps: list[Sleep] = []
        """The sleeps of its flows."""
        self.history: list[tuple[Event, float, bytes]] = []
        """The events that it handled, with their times and effects."""
        self.handle(Start(WALL, name))
        for replica in self._known.values():
            replica.next_request()

    def handle(self, event: Event) -> None:
        """Handle an event by the machine, and send its effects."""
        now = self._clock()
        effects = self.machine.handle(event, now)
        self.history.append((event, now, encode_effects(effects) if effects else b""))
        for effect in effects:
            if isinstance(effect, Sleep):
                self.sleeps.append(effect)
            elif effect.id:
                self._effects.in_flight.append(SentEffect(self, effect))

    def sends(self, effect: Effect) -> Effect:
        """Return an effect as it is sent."""
        return effect

    # Watches

    def observe(self, kind: Kind[Any], most: int, *, twice: bool = False) -> None:
        """Observe the next `most` events of a kind."""
        api, at = self._effects.api, self._observed[kind.plural]
        events = api.history[kind.plural]
        for event in events[at : at + most]:
            for _ in range(2 if twice else 1):
                item = api.read(kind, event.object)
                for change in self._known[kind.plural].on_event(event.type, item):
                    self.handle(change)
        self._observed[kind.plural] = min(len(events), at + most)

    def observe_all(self) -> None:
        """Observe all events so far."""
        for kind in KINDS:
            self.observe(kind, 1000)

    def relist(self) -> None:
        """Miss all events until now, and list again."""
        api = self._effects.api
        for kind in KINDS:
            for change in self._known[kind.plural].on_list(api.list_objects(kind), str(api.version)):
                self.handle(change)
            self._observed[kind.plural] = len(api.history[kind.plural])

    def add_object(self, item: Any) -> None:
        """Observe an object that does not change."""
        self.handle(ObjectChange(None, item))

    def begin(self) -> None:
        """List everything, and begin the leader election."""
        self.relist()
        self.handle(Synced(claims=True))

    # Steps

    def end_sleeps(self, longest: float = 1.0) -> None:
        """End the sleeps of at most `longest` seconds."""
        over = [nap for nap in self.sleeps if nap.seconds <= longest]
        self.sleeps = [nap for nap in self.sleeps if nap.seconds > longest]
        for each in over:
            self.handle(Answered(each.id))

    def try_acquire_or_renew(self) -> None:
        """Let the replica try the Lease again, unless it does so already."""
        self.end_sleeps(LEASE.period)

    def work(self) -> None:
        """Run one scheduling cycle, if the machine is ready."""
        self.end_sleeps()
        self.handle(Tick(WALL + self._clock()))
        if self.machine.ready(self._clock()):
            self.handle(Cycle())


def unconditional(effect: Effect, stripped: Callable[[str, str, bytes | None], Any]) -> Effect:
    """Return a request without the conditions that make it fail when it is late."""
    if not isinstance(effect, ApiRequest):
        return effect
    body = json.dumps(effect.body).encode() if effect.body else None
    method, path, left = stripped(effect.method, effect.path, body)
    return replace(effect, method=method, path=path, body=json.loads(left) if left else {})
