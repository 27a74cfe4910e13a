"""What is wrong with an Augmentation that its schema cannot say. Pure."""

from fairlead.augmentobjects.resource import AugmentationResource
from fairlead.compat import StrEnum
from fairlead.ownedobjects.conditions import ConditionState
from fairlead.units import format_quantity


class AugmentationCondition(StrEnum):
    """What is said of an Augmentation."""

    ACCEPTED = "Accepted"
    """The spec is sound."""
    STORAGE = "StorageReady"
    """Every claim has its volume."""
    SIZED = "Sized"
    """The quota and the claims are as the spec asks."""
    RECLAIMED = "Reclaimed"
    """The data is in a claim of the size that is asked for."""
    JOINED = "DeviceJoined"
    """The device has joined, and says how it is."""
    SAME_APPLICATION = "SameApplication"
    """The application in the pod is the one on the device."""
    READY = "Ready"
    """The store answers, and the application runs."""
    PROGRESSING = "Progressing"
    """The controller changes objects, or waits for them."""


def problems_of(resource: AugmentationResource) -> list[str]:
    """Return what must be changed, a line each; none: the resource is sound."""
    storage, found = resource.spec.storage, []
    if not resource.spec.device:
        found.append("spec.device: name the device that the storage is for")
    if storage.fast is not None and storage.fast >= storage.size:
        found.append(
            f"spec.storage.fast: {format_quantity(storage.fast)} is not less than the size of "
            f"{format_quantity(storage.size)}: ask for less, or leave it out"
        )
    if storage.fast is not None and resource.reclaim:
        found.append(
            "spec.storage.reclaim: data on two tiers is not moved: leave it out; the quota is smaller"
        )
    if len(storage.classes) > (1 if storage.fast is None else 2):
        found.append("spec.storage.classes: name one class for each tier: that of the fast one first")
    if resource.application is not None and not resource.spec.image:
        found.append("spec.application.image: name the image of the application")
    if resource.application is not None and resource.application.user == 0:
        found.append("spec.application.user: 0 is root: choose another user")
    if resource.exposure.node_port and resource.exposure.type == "ClusterIP":
        found.append("spec.service.nodePort: a ClusterIP Service has none: leave it out, or change the type")
    return found


def accepted_state(problems: list[str]) -> ConditionState:
    """Return the condition that says whether the spec is sound."""
    if problems:
        return ConditionState(
            AugmentationCondition.ACCEPTED, False, "Invalid", "; ".join(problems), is_warning=True
        )
    return ConditionState(AugmentationCondition.ACCEPTED, True, "Valid", "the spec is sound")
