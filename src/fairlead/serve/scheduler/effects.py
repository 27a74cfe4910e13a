"""What the scheduler has done: one class for each reason to write to the API server. Frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.serve.machine.flow import Effect

JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class ApiRequest(Effect):
    """One request to the API server; the answer is the body of the response."""

    method: str
    path: str
    body: Mapping[str, Any] = field(default_factory=dict)
    content_type: str = JSON
    within: float | None = None
    """Seconds after which the driver gives up; None: as long as the client waits."""


class Get(ApiRequest):
    """Read an object."""

    __slots__ = ()


class Bind(ApiRequest):
    """Bind a pod to its node."""

    __slots__ = ()


class Allocate(ApiRequest):
    """Create, mark or fill the claim by which a pod gets its devices."""

    __slots__ = ()


class Deallocate(ApiRequest):
    """Take devices back from a claim, or delete a claim of ours."""

    __slots__ = ()


class BindVolume(ApiRequest):
    """Reserve a volume for a claim, or have one provisioned."""

    __slots__ = ()


class Evict(ApiRequest):
    """Evict a pod to make room for another, or mark it before and after."""

    __slots__ = ()


class Fence(ApiRequest):
    """Change an object so that the previous leader's late writes to it fail."""

    __slots__ = ()


class Report(ApiRequest):
    """Write a condition, an event or a nomination: what users read, and what decides nothing."""

    __slots__ = ()


class RenewLease(ApiRequest):
    """Acquire, renew or release the leader's Lease."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ListObjects(Effect):
    """List every object of the kind with this plural name; the answer is the objects."""

    plural: str


@dataclass(frozen=True, slots=True)
class Explained(Effect):
    """The answer to an `Explain` event."""

    document: Mapping[str, Any]
    """Empty where this replica does not decide."""
    searched: bool = False
    """Whether it was worked out now, which may have taken long."""
