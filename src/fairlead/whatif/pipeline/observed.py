"""What was read of a Pipeline and of everything that belongs to it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.keys import PIPELINE_HOST
from fairlead.ownedobjects import stored
from fairlead.pipelineobjects.names import LOCAL
from fairlead.pipelineobjects.status import HostStatus, host_status

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """A node with a pod of the Pipeline."""

    name: str
    is_ready: bool
    since: str = ""
    """When its condition became so."""
    is_gone: bool = False
    """No such node is in the cluster."""

    @classmethod
    def of(cls, node: Json) -> "ObservedNode":
        """Read it from the object."""
        conditions = (node.get("status") or {}).get("conditions") or ()
        ready: Json = next((each for each in conditions if each["type"] == "Ready"), {})
        is_ready = ready.get("status") == "True"
        return cls(node["metadata"]["name"], is_ready, ready.get("lastTransitionTime") or "")


@dataclass(frozen=True, slots=True)
class PipelineEvent:
    """An event about the Pipeline."""

    time: str
    """When it happened last."""
    type: str
    reason: str
    message: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """A pod of the Pipeline."""

    manifest: Json
    status: HostStatus
    explanation: Json = field(default_factory=dict)
    """Why it has no node, as `fairlead explain POD` says it; empty: it has one, or was not asked for."""

    @classmethod
    def of(cls, manifest: Json) -> "ObservedPod":
        """Read it from the object."""
        host = (manifest["metadata"].get("labels") or {}).get(PIPELINE_HOST, "")
        return cls(manifest, host_status(host, manifest))

    @property
    def host(self) -> str:
        """The host of the Pipeline that it is."""
        return self.status.name

    @property
    def is_ending(self) -> bool:
        """Whether it is being deleted."""
        return bool(self.manifest["metadata"].get("deletionTimestamp"))

    @property
    def phase(self) -> str:
        """What the kubelet says of it."""
        return (self.manifest.get("status") or {}).get("phase") or "Pending"

    @property
    def is_unscheduled(self) -> bool:
        """Whether it waits for a node."""
        return not self.status.node and not self.is_ending and self.phase == "Pending"


@dataclass(frozen=True, slots=True)
class ObservedPipeline:
    """A Pipeline."""

    resource: Json
    pods: Sequence[ObservedPod] = ()
    nodes: Mapping[str, ObservedNode] = field(default_factory=dict)
    """By name, those that could be read."""
    events: Sequence[PipelineEvent] = ()
    """The last one first."""
    run: Json = field(default_factory=dict)
    """The status of the run; empty: there is none."""
    run_note: str = ""
    """Why there is none."""

    @property
    def name(self) -> str:
        """Its namespace and name."""
        return f"{self.resource['metadata']['namespace']}/{self.resource['metadata']['name']}"

    @property
    def spec(self) -> Json:
        """What it shall be."""
        return self.resource.get("spec") or {}

    @property
    def status(self) -> Json:
        """What the operator says of it."""
        return self.resource.get("status") or {}

    @property
    def coordinator(self) -> ObservedPod | None:
        """The pod that runs it."""
        return next((pod for pod in self.pods if pod.host == LOCAL and not pod.is_ending), None)

    def condition(self, name: str) -> Json:
        """Return a condition of the present spec; empty: nothing has been said of it yet."""
        return stored.condition(self.resource, name)

    def pods_of(self, host: str) -> list[ObservedPod]:
        """Return the pods of a host that stay."""
        return [pod for pod in self.pods if pod.host == host and not pod.is_ending]
