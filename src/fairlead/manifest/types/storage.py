"""Volumes, their claims and classes, with the fields that decide where a pod can run."""

from typing import Final

from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Object, ObjectPart, field
from fairlead.cluster.objects import NodeSelector
from fairlead.manifest.types.kubernetes import Amounts, LabelSelector, PodResourceRequirements

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""The annotation of a claim that names the node for which its volume is provisioned."""
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
"""The provisioner of classes whose volumes an administrator creates in advance."""
STORAGE_RESOURCE: Final = "storage"


class VolumeClaimSpec(ObjectPart, frozen=True):
    """The volume that a claim requests, or has."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    resources: PodResourceRequirements = PodResourceRequirements()
    selector: LabelSelector | None = None


class VolumeClaimStatus(ObjectPart, frozen=True):
    """The status of a claim."""

    phase: str = ""


class VolumeClaim(Object, frozen=True):
    """A PersistentVolumeClaim."""

    spec: VolumeClaimSpec = VolumeClaimSpec()
    status: VolumeClaimStatus = VolumeClaimStatus()

    @property
    def bound(self) -> bool:
        """Whether the claim is bound to a volume."""
        return self.status.phase == "Bound" and bool(self.spec.volume_name)

    @property
    def node(self) -> str:
        """The node for which its volume is provisioned; empty: none is selected yet."""
        return self.metadata.annotations.get(SELECTED_NODE, "")


class VolumeAffinity(ObjectPart, frozen=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class ClaimRef(ObjectPart, frozen=True):
    """The claim that a volume is bound to or reserved for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeSpec(ObjectPart, frozen=True):
    """The spec of a volume."""

    node_affinity: VolumeAffinity = VolumeAffinity()
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    capacity: Amounts = field(default_factory=dict)
    claim_ref: ClaimRef | None = None


class VolumeStatus(ObjectPart, frozen=True):
    """The status of a volume."""

    phase: str = ""


class Volume(Object, frozen=True):
    """A PersistentVolume."""

    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()

    @property
    def claimed_by(self) -> tuple[str, str] | None:
        """The namespace and name of the claim in `claimRef`; None where the volume is available."""
        claim = self.spec.claim_ref
        return (claim.namespace, claim.name) if claim is not None else None


class TopologyRequirement(ObjectPart, frozen=True):
    """A label, and its values of which a node must have one."""

    key: str = ""
    values: tuple[str, ...] = ()


class Topology(ObjectPart, frozen=True):
    """Requirements that a node must meet together."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(Object, frozen=True):
    """How and when volumes of a class are provisioned."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[Topology, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether it is the default class, for claims that name none."""
        return self.metadata.annotations.get("storageclass.kubernetes.io/is-default-class") == "true"


VOLUME_CLAIMS: Final = Kind("", "v1", "persistentvolumeclaims", True, VolumeClaim, "PersistentVolumeClaim")
VOLUMES: Final = Kind("", "v1", "persistentvolumes", False, Volume, "PersistentVolume")
STORAGE_CLASSES: Final = Kind("storage.k8s.io", "v1", "storageclasses", False, StorageClass, "StorageClass")
