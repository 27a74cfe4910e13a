"""The scheduler's effects: one class for each reason to write to the API server. Frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.serve.machine.flow import Effect
from fairlead.serve.machine.requests import ApiRequest


class Bind(ApiRequest):
    """Bind a pod to its node."""

    __slots__ = ()


class Allocate(ApiRequest):
    """Create, mark or allocate the claim by which a pod gets its devices."""

    __slots__ = ()


class Deallocate(ApiRequest):
    """Deallocate a claim, or delete a pod's own claim."""

    __slots__ = ()


class BindVolume(ApiRequest):
    """Reserve a volume for a claim, or have one provisioned."""

    __slots__ = ()


class EvictPod(ApiRequest):
    """Evict a pod to make room for another, or mark it before and after."""

    __slots__ = ()


class Fence(ApiRequest):
    """Change an object so that the previous leader's late writes to it fail."""

    __slots__ = ()


class Report(ApiRequest):
    """Write a condition, an event or a nomination: users read it, and no decision depends on it."""

    __slots__ = ()


class Learned(ApiRequest):
    """Write the learned sizes of workloads, so that the next leader knows them."""

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
    """Whether the answer was computed now, which may have taken long."""
