"""The metadata that all Kubernetes objects share, and the types that the API server wraps them in."""

from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec import field as field  # noqa: PLC0414 - the door to msgspec: other rooms describe kinds, too
from msgspec.structs import replace as replace  # noqa: PLC0414 - the door to msgspec: objects are immutable


class ObjectPart(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, rename="camel"):
    """A part of an object. The values have no cycles, so the garbage collector need not traverse them."""


class OwnerReference(ObjectPart, frozen=True):
    """The object that owns another one."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Metadata(ObjectPart, frozen=True):
    """The metadata of an object."""

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
    """Any object that the API server stores."""

    metadata: Metadata = Metadata()

    @property
    def key(self) -> tuple[str, str]:
        """The namespace (empty for cluster-scoped objects) and the name."""
        return self.metadata.namespace, self.metadata.name


T = TypeVar("T", bound=Object)


class Raw(Object, frozen=True):
    """An object of any kind: its metadata typed, the whole kept as it arrived."""

    api_version: str = ""
    kind: str = ""
    body: bytes = b"{}"
    """The whole object, as JSON."""

    def document(self) -> dict[str, Any]:
        """Return the whole object."""
        fields: dict[str, Any] = msgspec.json.decode(self.body)
        return {"apiVersion": self.api_version, "kind": self.kind, **fields}


class Listing(Struct, Generic[T], frozen=True, kw_only=True, gc=False):
    """Every object of a list request, at one resource version."""

    items: tuple[T, ...]
    resource_version: str
    """A watch that starts here misses nothing."""


INITIAL_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark after which a streamed list is complete."""


class WatchEvent(Struct, Generic[T], frozen=True, kw_only=True, gc=False):
    """One event of a watch: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: T
    """The object after the change; for a bookmark, one with a resource version only."""

    @property
    def initial_end(self) -> bool:
        """Whether this bookmark ends a streamed list."""
        return self.type == "BOOKMARK" and self.object.metadata.annotations.get(INITIAL_END) == "true"


class Cause(ObjectPart, frozen=True):
    """One of the faults of a request."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(ObjectPart, frozen=True):
    """What a Status refers to."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0


class Status(ObjectPart, frozen=True):
    """The API server's response to a failed request."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails = StatusDetails()


class ServerVersion(ObjectPart, frozen=True):
    """The version of the API server."""

    major: str = ""
    minor: str = ""
    git_version: str = ""
    platform: str = ""
