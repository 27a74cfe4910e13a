"""How the size that is asked for becomes true: claims that grow, and the quota that the store keeps. Pure.

What the store enforces is never more than the volume has, and never less than what is stored.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fairlead.augmentobjects.claims import ObservedClaim, asked_class, asked_size, claim_names
from fairlead.augmentobjects.names import DATA
from fairlead.augmentobjects.problems import AugmentationCondition
from fairlead.augmentobjects.resource import AugmentationResource
from fairlead.ownedobjects.conditions import ConditionState
from fairlead.ownedobjects.kinds import VOLUME_CLAIMS
from fairlead.units import Bytes, format_quantity


@dataclass(frozen=True, slots=True)
class SizeDecision:
    """The quota in force, and what is said of storage and size."""

    quota: Bytes
    storage: ConditionState
    sized: ConditionState


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """What sizes are decided by."""

    claims: Mapping[str, ObservedClaim]
    used: Bytes | None
    """What the store says that it holds; None: it has not said."""
    quota: Bytes | None
    """The quota that was in force; None: none was yet."""
    refused: Mapping[tuple[str, str], str]
    """Why objects could not be made so, by kind and name."""
    classes: Collection[str] | None
    """The storage classes of the cluster; None: they are not known."""
    is_asked: bool = False
    """Whether the store was asked what it holds, and has not answered yet."""


def decide_sizes(resource: AugmentationResource, facts: StorageFacts) -> SizeDecision:
    """Return the quota, and the conditions about storage."""
    size, data = resource.spec.storage.size, facts.claims.get(claim_names(resource)[DATA])
    capacity = data.capacity if data is not None else None
    quota = size if capacity is None else Bytes(min(size, capacity))
    is_below_use = facts.used is not None and quota < facts.used
    if facts.is_asked and facts.quota is not None and quota < facts.quota:
        quota = facts.quota if capacity is None else Bytes(min(facts.quota, capacity))
        text = "the store is asked what it holds before its quota becomes smaller"
        measuring = ConditionState(AugmentationCondition.SIZED, False, "Measuring", text)
        return SizeDecision(quota, _storage_state(resource, facts), measuring)
    if is_below_use:
        held = facts.quota or capacity or facts.used or size
        quota = Bytes(max(held, facts.used or 0))
    return SizeDecision(
        quota, _storage_state(resource, facts), _sized_state(resource, facts, quota, is_below_use)
    )


def _storage_state(resource: AugmentationResource, facts: StorageFacts) -> ConditionState:
    kind = AugmentationCondition.STORAGE
    names = claim_names(resource)
    for part, name in names.items():
        claim, refusal = facts.claims.get(name), facts.refused.get((VOLUME_CLAIMS.kind, name), "")
        if claim is None:
            if refusal:
                return ConditionState(
                    kind, False, "ClaimRefused", f"claim {name}: {refusal}", is_warning=True
                )
            return ConditionState(kind, False, "Creating", f"claim {name} is made")
        if claim.is_ending:
            text = f"claim {name} is being deleted; it is made again once it is gone"
            return ConditionState(kind, False, "ClaimEnding", text, is_warning=True)
        if not claim.is_bound:
            return _unbound_state(resource, facts, part, claim)
    text = ", ".join(f"{name} {format_quantity(facts.claims[name].capacity or 0)}" for name in names.values())
    return ConditionState(kind, True, "Bound", text)


def _unbound_state(
    resource: AugmentationResource, facts: StorageFacts, part: str, claim: ObservedClaim
) -> ConditionState:
    kind, wanted = AugmentationCondition.STORAGE, claim.storage_class or asked_class(resource, part)
    if wanted and facts.classes is not None and wanted not in facts.classes:
        known = ", ".join(sorted(facts.classes)) or "none"
        text = (
            f"storage class {wanted} of claim {claim.name} does not exist (there are: {known}): create it, "
        )
        text += "or delete the augmentation and create it with another class"
        return ConditionState(kind, False, "StorageClassMissing", text, is_warning=True)
    if not wanted and facts.classes is not None and not facts.classes:
        text = (
            f"claim {claim.name} names no storage class, and the cluster has no default one: create one, or "
        )
        text += "delete the augmentation and create it with a class"
        return ConditionState(kind, False, "StorageClassMissing", text, is_warning=True)
    text = f"claim {claim.name} waits for a volume of {format_quantity(claim.requested)}; if it stays so: "
    text += f"kubectl -n {resource.namespace} describe pvc {claim.name}"
    return ConditionState(kind, False, "ClaimPending", text)


def _sized_state(
    resource: AugmentationResource, facts: StorageFacts, quota: Bytes, is_below_use: bool
) -> ConditionState:
    kind, size = AugmentationCondition.SIZED, resource.spec.storage.size
    if is_below_use:
        text = (
            f"{format_quantity(facts.used or 0)} are in use, more than the {format_quantity(size)} that are "
        )
        text += f"asked for: the quota stays {format_quantity(quota)} until files are removed"
        return ConditionState(kind, False, "ShrinkBelowUse", text, is_warning=True)
    for part, name in claim_names(resource).items():
        claim, asked = facts.claims.get(name), asked_size(resource, part)
        if claim is None or claim.capacity is None:
            continue
        refusal = facts.refused.get((VOLUME_CLAIMS.kind, name), "")
        if refusal and asked > claim.requested:
            text = f"claim {name} cannot grow from {format_quantity(claim.requested)} to "
            text += f"{format_quantity(asked)}: {refusal}; nothing is lost, and the quota "
            text += f"is {format_quantity(quota)}"
            return ConditionState(kind, False, "CannotGrow", text, is_warning=True)
        if asked > claim.capacity:
            text = f"claim {name} grows from {format_quantity(claim.capacity)} to {format_quantity(asked)}"
            return ConditionState(kind, False, "Growing", text)
    text = f"the quota is {format_quantity(quota)}"
    return ConditionState(kind, True, "AsAsked", text)
