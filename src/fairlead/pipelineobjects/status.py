"""What the status of a Pipeline says of its pods and its run. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairlead.ownedobjects.conditions import ConditionState
from fairlead.ownedobjects.pod_status import readiness_of
from fairlead.pipelineobjects.conditions import ConditionType
from fairlead.pipelineobjects.names import LOCAL
from fairlead.pipelineobjects.resource import PipelineResource
from fairlead.pipelineobjects.sequence import PodSequence
from fairlead.reconcile import Manifest
from fairlead.units import pluralize


@dataclass(frozen=True, slots=True)
class HostStatus:
    """The pod of one host."""

    name: str
    pod: str
    node: str
    is_ready: bool
    message: str
    """Why it is not ready; empty: it is, or it starts."""
    is_stuck: bool = False
    """It does not become ready by itself."""

    def document(self) -> dict[str, Any]:
        """Return the entry of the status."""
        body = {"name": self.name, "pod": self.pod, "node": self.node, "ready": self.is_ready}
        return {key: value for key, value in body.items() if value != ""} | (
            {"message": self.message} if self.message else {}
        )


def host_status(name: str, pod: Manifest) -> HostStatus:
    """Return the status of the pod of a host."""
    seen = readiness_of(pod)
    return HostStatus(name, seen.pod, seen.node, seen.is_ready, seen.message, seen.is_stuck)


def plan_state(resource: PipelineResource) -> ConditionState:
    """Return the condition that says where the stages are."""
    places = {
        host: [each.name for each in resource.spec.stages if each.on == host] for host in _hosts(resource)
    }
    text = "; ".join(f"{host}: {', '.join(stages)}" for host, stages in places.items() if stages)
    return ConditionState(ConditionType.PLANNED, True, "Placed", text)


def _hosts(resource: PipelineResource) -> list[str]:
    return [LOCAL, *(group.name for group in resource.used_hosts)]


def ready_state(hosts: Sequence[HostStatus], wanted: int, *, is_updating: bool) -> ConditionState:
    """Return the condition that says whether frames flow; `is_updating`: pods of an earlier spec are left."""
    ready = sum(host.is_ready for host in hosts)
    total = f"{ready} of {pluralize(wanted, 'pod')} {'is' if wanted == 1 else 'are'} ready"
    if is_updating:
        return ConditionState(ConditionType.READY, False, "Updating", total)
    if wanted and ready == wanted == len(hosts):
        return ConditionState(ConditionType.READY, True, "Running", total)
    stuck = [host for host in hosts if host.is_stuck]
    if stuck:
        text = "; ".join(f"{host.name}: {host.message}" for host in stuck)
        return ConditionState(ConditionType.READY, False, "PodsNotReady", f"{total}; {text}", True)
    return ConditionState(ConditionType.READY, False, "Starting", total)


_LOST: Final = (
    "the coordinator's node is lost, and its pod may still run: the run goes on once the node is back or "
    "deleted, with stateClaim after 5 minutes"
)


def _coordinator_state(doing: str, *, is_lost: bool) -> ConditionState:
    kind = ConditionType.PROGRESSING
    if is_lost:
        return ConditionState(kind, True, "CoordinatorLost", _LOST, is_warning=True)
    text = "the coordinator finishes the frames on their way; then its hosts follow"
    return ConditionState(kind, True, "Draining", f"{doing}: {text}" if doing else text)


def progress_state(
    sequence: PodSequence,
    ready: ConditionState,
    *,
    doing: str = "",
    rolled_back: str = "",
    is_lost: bool = False,
) -> ConditionState:
    """Return the condition that says what the controller does.

    `doing`: what an update of the run does; `rolled_back`: by what it was worse; `is_lost`: the coordinator's
    node is lost.
    """
    kind = ConditionType.PROGRESSING
    if sequence.waits_for == LOCAL:
        return _coordinator_state(doing, is_lost=is_lost)
    if doing:
        return ConditionState(kind, True, "Updating", doing)
    if sequence.end or sequence.waits_for:
        names = ", ".join(
            dict.fromkeys(filter(None, [*(host for host, _ in sequence.end), sequence.waits_for]))
        )
        return ConditionState(kind, True, "Replacing", f"the pod of {names} ends; its successor follows")
    if sequence.create:
        names = ", ".join(host for host, _ in sequence.create)
        return ConditionState(kind, True, "Creating", f"pods of {names} are made")
    if rolled_back:
        text = f"rolled back: {rolled_back}; the new spec is tried again once it changes"
        return ConditionState(kind, False, "RolledBack", text, is_warning=True)
    if ready.reason in ("Starting", "PodsNotReady"):
        return ConditionState(kind, True, "Waiting", "pods are not ready yet")
    return ConditionState(kind, False, "Stable", "nothing is to be done")
