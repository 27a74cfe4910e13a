"""Kubernetes objects with the fields that scheduling needs: typed, frozen, every other field ignored.

They extend those of `cluster.objects` by inter-pod affinity, ports and groups. Amounts may be numbers, as
people write them in files; the API server always sends strings.
"""

from collections.abc import Mapping

from fairlead.cluster import objects
from fairlead.cluster.meta import Metadata, Object, ObjectPart, field

Amount = str | int | float
Amounts = Mapping[str, Amount]


class ContainerClaim(ObjectPart, frozen=True):
    """A claim of the pod that a container uses."""

    name: str = ""


class PodResourceRequirements(ObjectPart, frozen=True):
    """The requests and limits of a container, or of a pod."""

    requests: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)
    claims: tuple[ContainerClaim, ...] = ()


class ContainerPort(ObjectPart, frozen=True):
    """A port of a container, and perhaps of its host."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(ObjectPart, frozen=True):
    """A container of a pod."""

    name: str = ""
    image: str = ""
    restart_policy: str = ""
    """`Always` marks an init container that runs beside the others (a sidecar)."""
    resources: PodResourceRequirements = PodResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()


class LabelSelector(ObjectPart, frozen=True):
    """A selector of objects by their labels."""

    match_labels: Mapping[str, str] = field(default_factory=dict)
    match_expressions: tuple[objects.Requirement, ...] = ()


class PodTerm(ObjectPart, frozen=True):
    """Pods that must be, or must not be, in the same topology domain."""

    label_selector: LabelSelector | None = None
    topology_key: str = ""
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodTerm(ObjectPart, frozen=True):
    """A preferred term, with its weight."""

    weight: int = 0
    pod_affinity_term: PodTerm = PodTerm()


class PodAffinity(ObjectPart, frozen=True):
    """Required and preferred terms of inter-pod affinity or anti-affinity."""

    required: tuple[PodTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[WeightedPodTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(ObjectPart, frozen=True):
    """The affinity of a pod to nodes and to other pods."""

    node_affinity: objects.NodeAffinity = objects.NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class SpreadConstraint(ObjectPart, frozen=True):
    """A topology spread constraint."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int = 0
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"


class SchedulingGroup(ObjectPart, frozen=True):
    """The pod group of a pod, in Kubernetes 1.36 and later."""

    pod_group_name: str = ""


class WorkloadRef(ObjectPart, frozen=True):
    """The pod group of a pod, in Kubernetes 1.35."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class VolumeClaimSource(ObjectPart, frozen=True):
    """The PersistentVolumeClaim behind a volume."""

    claim_name: str = ""


class EphemeralSource(ObjectPart, frozen=True):
    """A claim that is created for one pod, named after the pod and the volume."""


class PodVolume(ObjectPart, frozen=True):
    """A volume of a pod; most kinds of volumes do not affect its placement."""

    name: str = ""
    persistent_volume_claim: VolumeClaimSource | None = None
    ephemeral: EphemeralSource | None = None


class PodSpec(ObjectPart, frozen=True):
    """The spec of a pod: its requests, and the gates that delay its scheduling."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    host_network: bool = False
    resources: PodResourceRequirements = PodResourceRequirements()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Amounts = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Affinity = Affinity()
    tolerations: tuple[objects.Toleration, ...] = ()
    topology_spread_constraints: tuple[SpreadConstraint, ...] = ()
    resource_claims: tuple[objects.PodResourceClaim, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    scheduling_group: SchedulingGroup = SchedulingGroup()
    workload_ref: WorkloadRef = WorkloadRef()
    scheduling_gates: tuple[objects.SchedulingGate, ...] = ()
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None


class PodResourceClaimStatus(ObjectPart, frozen=True):
    """The claim that a template created for a pod."""

    name: str = ""
    resource_claim_name: str = ""


class ContainerImageStatus(ObjectPart, frozen=True):
    """The image that a container runs."""

    name: str = ""
    image_id: str = field(default="", name="imageID")


class PodStatus(ObjectPart, frozen=True):
    """The status of a pod."""

    phase: str = ""
    container_statuses: tuple[ContainerImageStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    conditions: tuple[objects.Condition, ...] = ()
    nominated_node_name: str = ""
    """The node on which victims of preemption make room for the pod."""
    qos_class: str = ""
    extended_resource_claim_status: objects.PodExtendedResourceClaimStatus = (
        objects.PodExtendedResourceClaimStatus()
    )


class Pod(Object, frozen=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplate(ObjectPart, frozen=True):
    """The template of a controller's pods."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()


class GangPolicy(ObjectPart, frozen=True):
    """Gang scheduling: all pods or none."""

    min_count: int | None = None


class GroupPolicy(ObjectPart, frozen=True):
    """How a group is scheduled; without `gang`, pod by pod."""

    gang: GangPolicy | None = None


class JobScheduling(ObjectPart, frozen=True):
    """How the pods of a job are scheduled, in Kubernetes 1.37."""

    scheduling_policy: GroupPolicy = GroupPolicy()


class ControllerSpec(ObjectPart, frozen=True):
    """The spec of a controller."""

    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    template: PodTemplate = PodTemplate()
    scheduling: JobScheduling = JobScheduling()


class Controller(Object, frozen=True):
    """A Deployment, StatefulSet, ReplicaSet, DaemonSet or Job."""

    spec: ControllerSpec = ControllerSpec()


class JobTemplate(ObjectPart, frozen=True):
    """The job that a CronJob creates."""

    metadata: Metadata = Metadata()
    spec: ControllerSpec = ControllerSpec()


class CronJobSpec(ObjectPart, frozen=True):
    """The spec of a CronJob."""

    job_template: JobTemplate = JobTemplate()


class CronJob(Object, frozen=True):
    """A CronJob."""

    spec: CronJobSpec = CronJobSpec()


class PriorityClass(Object, frozen=True):
    """A class of pod priority."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


class PodGroupSpec(ObjectPart, frozen=True):
    """A group of pods: Kubernetes' own fields, and `minMember` of older schedulers."""

    scheduling_policy: GroupPolicy = GroupPolicy()
    min_member: int | None = None
    priority_class_name: str = ""
    priority: int | None = None
    """The priority of the whole group, which the API server computes."""


class PodGroupStatus(ObjectPart, frozen=True):
    """The status of a group."""

    conditions: tuple[objects.Condition, ...] = ()


class PodGroup(Object, frozen=True):
    """Pods that are scheduled together."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class GroupTemplate(ObjectPart, frozen=True):
    """A group that a Workload describes."""

    name: str = ""
    scheduling_policy: GroupPolicy = GroupPolicy()
    policy: GroupPolicy = GroupPolicy()
    """Kubernetes 1.35."""


class ControllerRef(ObjectPart, frozen=True):
    """The controller whose pods a Workload is about."""

    kind: str = ""
    name: str = ""


class WorkloadSpec(ObjectPart, frozen=True):
    """The groups of a workload."""

    controller_ref: ControllerRef = ControllerRef()
    pod_group_templates: tuple[GroupTemplate, ...] = ()
    pod_groups: tuple[GroupTemplate, ...] = ()


class Workload(Object, frozen=True):
    """Kubernetes' description of pods that belong together."""

    spec: WorkloadSpec = WorkloadSpec()


class NodeStatus(ObjectPart, frozen=True):
    """The capacity of a node, and what of it is allocatable."""

    capacity: Amounts = field(default_factory=dict)
    allocatable: Amounts = field(default_factory=dict)
    addresses: tuple[objects.NodeAddress, ...] = ()
    conditions: tuple[objects.Condition, ...] = ()


class Node(Object, frozen=True):
    """A machine of the cluster."""

    spec: objects.NodeSpec = objects.NodeSpec()
    status: NodeStatus = NodeStatus()
