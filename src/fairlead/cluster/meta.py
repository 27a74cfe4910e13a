"""What all Kubernetes objects have in common, and the shapes that the API server wraps them in."""

from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec import field as field  # noqa: PLC0414 - the door: other rooms describe kinds, too
from msgspec.structs import replace as replace  # noqa: PLC0414 - the door: a changed object is a new one


class ObjectPart(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, rename="camel"):
    """A piece of an object. Values hold no cycles, so the garbage collector need not walk them."""


class OwnerReference(ObjectPart, frozen=True):
    """The object that another one belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Metadata(ObjectPart, frozen=True):
    """What every object says of itself."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int = 0
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Object(ObjectPart, frozen=True):
    """Anything that the API server keeps."""

    metadata: Metadata = Metadata()

    @property
    def key(self) -> tuple[str, str]:
        """The namespace (empty for objects of the whole cluster) and the name."""
        return self.metadata.namespace, self.metadata.name


T = TypeVar("T", bound=Object)


class Raw(Object, frozen=True):
    """An object of any kind: its metadata typed, all of it kept as it came."""

    api_version: str = ""
    kind: str = ""
    body: bytes = b"{}"
    """The whole object, as JSON."""

    def document(self) -> dict[str, Any]:
        """Return the whole object."""
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return {"apiVersion": self.api_version, "kind": self.kind, **found}


class Listing(Struct, Generic[T], frozen=True, kw_only=True, gc=False):
    """Every object of one question, as of one moment."""

    items: tuple[T, ...]
    resource_version: str
    """The moment: a watch that starts here misses nothing."""


INITIAL_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark after which a streamed list is complete."""


class WatchEvent(Struct, Generic[T], frozen=True, kw_only=True, gc=False):
    """One thing that happened: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: T
    """The object after the change; for a bookmark, one that only has a resource version."""

    @property
    def initial_end(self) -> bool:
        """Whether a streamed list is complete with this bookmark."""
        return self.type == "BOOKMARK" and self.object.metadata.annotations.get(INITIAL_END) == "true"


class Cause(ObjectPart, frozen=True):
    """One of several things wrong with a request."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(ObjectPart, frozen=True):
    """What an answer is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0


class Status(ObjectPart, frozen=True):
    """The API server's answer where it is not an object."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails = StatusDetails()


class ServerVersion(ObjectPart, frozen=True):
    """What the API server is."""

    major: str = ""
    minor: str = ""
    git_version: str = ""
    platform: str = ""
