"""The machines of a run: connected when workers go there, and left once none is there any more."""

import selectors
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from fairlead.pipeline.fuse import RunPlan, WorkerPlan
from fairlead.pipeline.place import LinkOpener, LocalPlace, Place, PlaceEvents, Positions, RemotePlace
from fairlead.pipeline.progress import WorkedOn
from fairlead.pipeline.spec import LOCAL, HostSpec
from fairlead.units import Bytes

_APART: Final = "@"
"""Between the name and the address of a host whose name another address has in the plan."""


class OtherHosts(Protocol):
    """The other machines of a run; only a run with hosts needs them, and hpack with them."""

    @property
    def replayable(self) -> Mapping[str, bool]:
        """By source on another host: whether it can be read again."""
        ...

    @property
    def links(self) -> LinkOpener:
        """What makes links from this machine."""
        ...

    def open(self, selector: selectors.BaseSelector, events: PlaceEvents) -> Mapping[str, RemotePlace]:
        """Connect with every host, and return them by address."""
        ...

    def connect(self, host: HostSpec, selector: selectors.BaseSelector, events: PlaceEvents) -> RemotePlace:
        """Connect with one more host."""
        ...

    def close(self) -> None:
        """End every connection."""
        ...


class RunPlaces:
    """The machine of the coordinator, and the other ones by address."""

    def __init__(
        self,
        hosts: OtherHosts | None,
        selector: selectors.BaseSelector,
        events: PlaceEvents,
        held: tuple[int, ...],
    ) -> None:
        self._hosts = hosts
        self._selector = selector
        self._events = events
        self.local = LocalPlace(selector, events, hosts.links if hosts is not None else None, held)
        self._remote = dict(hosts.open(selector, events)) if hosts is not None else {}
        self._leaving: list[RemotePlace] = []

    def of(self, worker: WorkerPlan) -> Place:
        """Return the machine of a worker."""
        return self._remote[worker.address] if worker.address else self.local

    def connect(self, plan: RunPlan) -> None:
        """Connect with the hosts of a plan that are not connected yet."""
        addresses = {worker.address for worker in plan.workers}
        for host in plan.spec.hosts:
            if host.address in addresses and host.address not in self._remote and self._hosts is not None:
                self._remote[host.address] = self._hosts.connect(host, self._selector, self._events)

    def leave(self, plans: Sequence[RunPlan]) -> None:
        """Leave the hosts that no plan has and no worker is on; none is waited for."""
        used = {worker.address for plan in plans for worker in plan.workers}
        for address, place in [*self._remote.items()]:
            if address not in used and place.is_empty:
                place.leave()
                self._leaving.append(self._remote.pop(address))
        for place in [place for place in self._leaving if place.has_left]:
            self._leaving.remove(place)
            place.close()

    def tick(self) -> dict[str, Bytes]:
        """Do what is due, and return what workers with a limit hold."""
        memory: dict[str, Bytes] = {}
        for place in self._all():
            place.tick()
            memory.update(place.memory())
        return memory

    def positions(self) -> Positions:
        """Return what the sinks of all places have taken."""
        return {name: at for place in self._all() for name, at in place.positions().items()}

    def calls(self) -> dict[str, WorkedOn]:
        """Return what the running workers of all places are in."""
        return {name: call for place in self._all() for name, call in place.calls().items()}

    def drop_link(self, session: str) -> None:
        """End a link between places."""
        for place in self._all():
            place.drop_link(session)

    def edge_counts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield for each place what was dropped before links that begin there, by edge."""
        for address, place in {LOCAL: self.local, **self._remote}.items():
            if edges := place.edge_counts():
                yield address, edges

    def status(self, plan: RunPlan) -> dict[str, Any]:
        """Return what is known of this machine, and of the others by name.

        While a host has two addresses, the one that the plan does not have is `NAME@ADDRESS`.
        """
        hosts = {self._name(place, plan): place.status() for place in self._remote.values()}
        return self.local.status() | ({"hosts": hosts} if hosts else {})

    def close(self) -> None:
        """Leave no process behind, whatever has happened here."""
        for place in (*self._all(), *self._leaving):
            place.close()
        if self._hosts is not None:
            self._hosts.close()

    def _all(self) -> list[Place]:
        return [self.local, *self._remote.values()]

    def _name(self, place: RemotePlace, plan: RunPlan) -> str:
        address, name = place.host.address, place.host.name
        placed = {worker.address: worker.host for worker in plan.workers if worker.address}
        if address in placed:
            return placed[address]
        others = (each for each in self._remote.values() if each is not place)
        is_taken = name in placed.values() or any(each.host.name == name for each in others)
        return f"{name}{_APART}{address}" if is_taken else name
