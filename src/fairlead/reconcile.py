"""ResourceController: what a resource of ours needs in a cluster, decided from what is observed. Pure.

The operator (serve/operator) observes, calls `reconcile`, and writes what differs. A controller never sees a
client: it returns every object that must exist, and the operator creates, changes and deletes until it is so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

Manifest = Mapping[str, Any]
"""A Kubernetes object as JSON."""


@dataclass(frozen=True, slots=True, order=True)
class ResourceKind:
    """A kind of object, as its URL names it."""

    api_version: str
    """Such as `fairlead.dev/v1alpha1`."""
    kind: str
    plural: str
    namespaced: bool = True


@dataclass(frozen=True, slots=True, order=True)
class PodPage:
    """A page that a pod serves."""

    address: str
    """The IP address of the pod."""
    port: int
    path: str
    authority: str = ""
    """The authority of its certificate, in PEM; empty: it is served over plain HTTP."""
    server_name: str = ""
    """The name in that certificate."""
    token: str = ""
    """What the request presents as a bearer token."""


@dataclass(frozen=True, slots=True)
class PageReading:
    """The last answer of a page."""

    at: datetime
    body: bytes = b""
    error: str = ""
    """Why it could not be read; empty: `body` is what it answered."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A resource, what belongs to it, and what it depends on, as of now."""

    resource: Manifest
    owned: Mapping[ResourceKind, Sequence[Manifest]]
    """Objects whose controller reference names the resource, or that are retained for it, ordered by name."""
    watched: Mapping[ResourceKind, Sequence[Manifest]]
    """All objects of the kinds that every resource depends on, such as nodes."""
    now: datetime
    conflicts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Why wanted objects could not be made so in the last pass, by kind and name: a pod exists with another
    spec, which cannot be changed; the name belongs to another owner; the API server refuses the object."""
    pages: Mapping[PodPage, PageReading] = field(default_factory=dict)
    """The pages that the last pass asked for, as far as they were read."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """An event of Kubernetes about the resource."""

    type: str
    """`Normal` or `Warning`."""
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What must be so."""

    objects: tuple[Manifest, ...] = ()
    """Every object that must exist, without owner references: the operator adds them. Others are deleted.

    An object with the label `RETAINED_FOR` gets no owner reference: it goes when a controller lets it go, and
    never because its resource is gone. A new resource of the same name finds it among its own.
    """
    status: Manifest | None = None
    """The status of the resource; None: as it is."""
    announcements: tuple[Announcement, ...] = ()
    again_after: float | None = None
    """Seconds after which to reconcile even if nothing changes."""
    is_finished: bool = False
    """Of a resource that is being deleted: nothing of it is left, and its finalizer may go."""
    keep: frozenset[tuple[str, str]] = field(default=frozenset())
    """Kind and name of owned objects that are neither wanted nor to be deleted yet."""
    force: frozenset[tuple[str, str]] = field(default=frozenset())
    """Kind and name of pods that are deleted without the word of their node, which is lost."""
    pages: Mapping[PodPage, float] = field(default_factory=dict)
    """Pages to read, with the seconds between two readings (at least 1); a pass follows each reading."""


class ResourceController(Protocol):
    """What decides for one kind of resource."""

    @property
    def resource(self) -> ResourceKind:
        """The kind that people write."""
        ...

    @property
    def owns(self) -> tuple[ResourceKind, ...]:
        """The kinds that it makes; a change of an owned object reconciles its owner."""
        ...

    @property
    def watches(self) -> tuple[ResourceKind, ...]:
        """Further kinds; a change reconciles every resource, at most once in some seconds."""
        ...

    def reconcile(self, observed: Observed) -> Reconciled:
        """Return what must be so; a resource with a deletionTimestamp is being deleted."""
        ...
