"""The volume claims of an Augmentation, as observed and as wanted. Pure.

A claim is retained: it outlives its Augmentation unless that says otherwise. A claim never asks for less than
it has asked for already: Kubernetes refuses that, and the quota is what makes the size smaller. Data that
was moved is in a claim with a higher number, and the label of that claim alone says that it counts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead.augmentobjects.names import AUGMENTATIONS, DATA, FAST, claim_name, new_object
from fairlead.augmentobjects.resource import AugmentationResource
from fairlead.keys import AUGMENTATION_PART, AUGMENTATION_STAGE, RETAINED_FOR
from fairlead.ownedobjects.kinds import VOLUME_CLAIMS
from fairlead.reconcile import Manifest
from fairlead.units import Bytes, format_quantity, parse_quantity

TARGET: Final = "target"
"""The stage of a claim to which data is copied; it may be deleted at any time."""
SERVED: Final = "served"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"


@dataclass(frozen=True, slots=True)
class ObservedClaim:
    """A claim as the API server shows it."""

    name: str
    part: str
    """`data` or `fast`."""
    requested: Bytes
    capacity: Bytes | None
    """None: it has no volume yet."""
    storage_class: str
    is_located: bool
    """Whether its volume exists, or is made on a chosen node: pods no longer decide where it is."""
    is_ending: bool
    stage: str = ""
    """`target` or `served` of a claim to which data was moved; empty: of the first one."""

    @property
    def number(self) -> int:
        """Its number: 1 of the first one."""
        last = self.name.rpartition("-")[2]
        return int(last) if last.isdecimal() and self.name.endswith(f"-{self.part}-{last}") else 1

    @property
    def is_bound(self) -> bool:
        """Whether it has a volume."""
        return self.capacity is not None

    def document(self) -> dict[str, Any]:
        """Return the entry of the status."""
        capacity = {} if self.capacity is None else {"capacity": format_quantity(self.capacity)}
        return {
            "name": self.name,
            "part": self.part,
            "requested": format_quantity(self.requested),
            **capacity,
        }


def observed_claims(manifests: Iterable[Manifest]) -> dict[str, ObservedClaim]:
    """Return the claims by their names."""
    claims = map(_observed, manifests)
    return {claim.name: claim for claim in claims if claim.part in (DATA, FAST)}


def _observed(manifest: Manifest) -> ObservedClaim:
    meta, spec, status = manifest["metadata"], manifest.get("spec") or {}, manifest.get("status") or {}
    capacity = (status.get("capacity") or {}).get("storage")
    return ObservedClaim(
        meta["name"],
        (meta.get("labels") or {}).get(AUGMENTATION_PART, ""),
        Bytes(parse_quantity(str(spec["resources"]["requests"]["storage"]))),
        Bytes(parse_quantity(str(capacity))) if capacity and status.get("phase") == "Bound" else None,
        spec.get("storageClassName") or "",
        bool(spec.get("volumeName")) or _SELECTED_NODE in (meta.get("annotations") or {}),
        bool(meta.get("deletionTimestamp")),
        (meta.get("labels") or {}).get(AUGMENTATION_STAGE, ""),
    )


def serving_number(name: str, observed: Mapping[str, ObservedClaim]) -> int:
    """Return the number of the claim with the data of an Augmentation."""
    numbers = [
        claim.number
        for claim in observed.values()
        if claim.part == DATA and claim.stage == SERVED and claim.name == claim_name(name, DATA, claim.number)
    ]
    return max(numbers, default=1)


def claim_names(resource: AugmentationResource) -> dict[str, str]:
    """Return the names of the claims by their part."""
    parts = (DATA,) if resource.spec.storage.fast is None else (DATA, FAST)
    numbers = {DATA: resource.data_claim}
    return {part: claim_name(resource.name, part, numbers.get(part, 1)) for part in parts}


def asked_size(resource: AugmentationResource, part: str) -> Bytes:
    """Return how large the claim of a part shall be."""
    storage = resource.spec.storage
    return storage.fast if part == FAST and storage.fast is not None else storage.size


def asked_class(resource: AugmentationResource, part: str) -> str:
    """Return the storage class of a part; empty: the cluster's default one."""
    classes = resource.spec.storage.classes
    if not classes:
        return ""
    return classes[0] if part == FAST or resource.spec.storage.fast is None else classes[-1]


def wanted_claims(
    resource: AugmentationResource, observed: Mapping[str, ObservedClaim]
) -> tuple[dict[str, Any], ...]:
    """Return the claims that must exist."""
    manifests = []
    for part, name in claim_names(resource).items():
        known = observed.get(name)
        size = max(asked_size(resource, part), known.requested if known else 0)
        stage = SERVED if part == DATA and resource.data_claim > 1 else ""
        manifests.append(_manifest(resource, part, name, Bytes(size), stage))
    return tuple(manifests)


def target_claim(resource: AugmentationResource, stage: str = TARGET) -> dict[str, Any]:
    """Return the claim to which the data moves."""
    name = claim_name(resource.name, DATA, resource.data_claim + 1)
    return _manifest(resource, DATA, name, resource.spec.storage.size, stage)


def _manifest(
    resource: AugmentationResource, part: str, name: str, size: Bytes, stage: str = ""
) -> dict[str, Any]:
    storage_class = asked_class(resource, part)
    spec = {
        "accessModes": [resource.access_mode],
        "resources": {"requests": {"storage": format_quantity(size)}},
        **({"storageClassName": storage_class} if storage_class else {}),
    }
    manifest = new_object(VOLUME_CLAIMS, resource.namespace, resource.name, name, spec=spec)
    manifest["metadata"]["labels"] |= {
        AUGMENTATION_PART: part,
        RETAINED_FOR: f"{AUGMENTATIONS.plural}.{resource.name}",
        **({AUGMENTATION_STAGE: stage} if stage else {}),
    }
    return manifest
