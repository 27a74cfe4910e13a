"""Volumes, their claims and classes, as far as they say where a pod can be."""

from typing import Final

from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Object, ObjectPart, field
from fairlead.cluster.objects import NodeSelector
from fairlead.manifest.types.kubernetes import Amounts, LabelSelector, PodResourceRequirements

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""The annotation of a claim that says for which node its volume is to be made."""
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
"""Of classes whose volumes somebody made before."""
STORAGE_RESOURCE: Final = "storage"


class VolumeClaimSpec(ObjectPart, frozen=True):
    """What volume a claim wants, or has."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    resources: PodResourceRequirements = PodResourceRequirements()
    selector: LabelSelector | None = None


class VolumeClaimStatus(ObjectPart, frozen=True):
    """How far a claim has come."""

    phase: str = ""


class VolumeClaim(Object, frozen=True):
    """A PersistentVolumeClaim."""

    spec: VolumeClaimSpec = VolumeClaimSpec()
    status: VolumeClaimStatus = VolumeClaimStatus()

    @property
    def bound(self) -> bool:
        """Whether it has its volume."""
        return self.status.phase == "Bound" and bool(self.spec.volume_name)

    @property
    def node(self) -> str:
        """The node for which its volume is to be made; empty: nobody has chosen yet."""
        return self.metadata.annotations.get(SELECTED_NODE, "")


class VolumeAffinity(ObjectPart, frozen=True):
    """From where a volume can be reached."""

    required: NodeSelector | None = None


class ClaimRef(ObjectPart, frozen=True):
    """For which claim a volume is kept."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeSpec(ObjectPart, frozen=True):
    """What a volume is."""

    node_affinity: VolumeAffinity = VolumeAffinity()
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    capacity: Amounts = field(default_factory=dict)
    claim_ref: ClaimRef | None = None


class VolumeStatus(ObjectPart, frozen=True):
    """How a volume is doing."""

    phase: str = ""


class Volume(Object, frozen=True):
    """A PersistentVolume."""

    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()

    @property
    def claimed_by(self) -> tuple[str, str] | None:
        """The namespace and name of the claim that it is kept for; None where it is free."""
        found = self.spec.claim_ref
        return (found.namespace, found.name) if found is not None else None


class TopologyRequirement(ObjectPart, frozen=True):
    """Values of a label of which a node must have one."""

    key: str = ""
    values: tuple[str, ...] = ()


class Topology(ObjectPart, frozen=True):
    """Requirements that a node must meet together."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(Object, frozen=True):
    """How volumes of a class come to be, and when."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[Topology, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether it is the class of claims that name none."""
        return self.metadata.annotations.get("storageclass.kubernetes.io/is-default-class") == "true"


VOLUME_CLAIMS: Final = Kind("", "v1", "persistentvolumeclaims", True, VolumeClaim, "PersistentVolumeClaim")
VOLUMES: Final = Kind("", "v1", "persistentvolumes", False, Volume, "PersistentVolume")
STORAGE_CLASSES: Final = Kind("storage.k8s.io", "v1", "storageclasses", False, StorageClass, "StorageClass")
