"""The controller of Pipelines: from what is observed to the objects that must exist, and the status. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from fairlead import __version__
from fairlead.compat.times import parse_iso
from fairlead.errors import PipelineError
from fairlead.keys import PIPELINE_HOST
from fairlead.pipeline.check import Problem
from fairlead.pipelineobjects.certificates import IssuedSecrets, Issuer, issue
from fairlead.pipelineobjects.conditions import ConditionState, ConditionType, announce, merge_conditions
from fairlead.pipelineobjects.names import (
    CONFIG_MAPS,
    LOCAL,
    NETWORK_POLICIES,
    NODES,
    PIPELINES,
    PODS,
    SECRETS,
    SERVICES,
)
from fairlead.pipelineobjects.placed import PlacedPipeline, place_stages
from fairlead.pipelineobjects.pods import wanted_pods
from fairlead.pipelineobjects.problems import check_resource, describe
from fairlead.pipelineobjects.resource import PipelineResource, read_resource
from fairlead.pipelineobjects.sequence import OVERDUE, PodSequence, PodState, pod_state, sequence_pods
from fairlead.pipelineobjects.status import (
    HostStatus,
    host_status,
    progress_state,
    ready_state,
)
from fairlead.pipelineobjects.wiring import file_map, network_policy, service
from fairlead.reconcile import Announcement, Manifest, Observed, Reconciled, ResourceKind
from fairlead.units import pluralize

IMAGE: Final = f"localhost/fairlead-pipeline:{__version__}"
_OWNED: Final = (SECRETS, CONFIG_MAPS, SERVICES, NETWORK_POLICIES, PODS)
Pods = Mapping[str, Manifest]
"""By host."""


@dataclass(frozen=True, slots=True)
class PipelineController:
    """A `ResourceController` of Pipelines."""

    issuer: Issuer
    image: str = IMAGE
    """Of Pipelines that name none."""

    @property
    def resource(self) -> ResourceKind:
        """Pipelines."""
        return PIPELINES

    @property
    def owns(self) -> tuple[ResourceKind, ...]:
        """What a Pipeline becomes."""
        return _OWNED

    @property
    def watches(self) -> tuple[ResourceKind, ...]:
        """Nodes: a plan puts stages on hosts that have one."""
        return (NODES,)

    def reconcile(self, observed: Observed) -> Reconciled:
        """Return what must be so."""
        pods = _by_host(observed)
        if observed.resource["metadata"].get("deletionTimestamp"):
            return _delete(observed, pods)
        try:
            resource = read_resource(observed.resource)
            problems = check_resource(resource)
        except PipelineError as error:
            problems = [Problem("spec", str(error), error.hint)]
        if problems:
            return _refuse(observed, pods, problems)
        placed = place_stages(resource, observed)
        if placed.resource is None:
            return _wait_for_plan(observed, pods, _accepted(resource), placed)
        return self._run(observed, placed.resource, pods, placed)

    def _run(
        self, observed: Observed, resource: PipelineResource, pods: Pods, placed: PlacedPipeline
    ) -> Reconciled:
        target = wanted_pods(resource, self.image)
        completed = _completed(observed, target, pods)
        wanted = {} if resource.is_suspended else target
        if completed:  # the pod that has ended stays, as the record of the run; its hosts go
            wanted = {LOCAL: target[LOCAL]} if LOCAL in pods and not resource.is_suspended else {}
        sequence = _settled_pods(wanted, pods, observed.now, is_completed=bool(completed))
        secrets = _by_name(observed.owned.get(SECRETS, ()))
        issued = issue(resource, secrets, self.issuer, observed.now)
        base = (*issued.secrets, file_map(resource), service(resource), network_policy(resource))
        hosts = [host_status(host, pods[host]) for host in target if host in sequence.keep]
        ready = _ready(resource, hosts, len(target), sequence, is_completed=bool(completed))
        states = (_accepted(resource), placed.condition, ready, progress_state(sequence, ready))
        status = _status(observed, states) | _summary(resource, hosts, len(wanted)) | completed
        return Reconciled(
            objects=(*base, *(target[host] for host in sequence.create)),
            status=status | placed.status,
            announcements=(
                *announce(_conditions(observed), states),
                *placed.announcements,
                *_events(sequence, pods, issued),
            ),
            again_after=_again_after(issued, pods, observed.now, placed.due),
            keep=_keep(observed, pods, sequence.keep),
        )


def _by_host(observed: Observed) -> dict[str, Manifest]:
    pods = observed.owned.get(PODS, ())
    return {(pod["metadata"].get("labels") or {}).get(PIPELINE_HOST, ""): pod for pod in pods}


def _by_name(objects: Sequence[Manifest]) -> dict[str, Manifest]:
    return {each["metadata"]["name"]: each for each in objects}


def _conditions(observed: Observed) -> list[dict[str, Any]]:
    return list((observed.resource.get("status") or {}).get("conditions") or ())


def _completed(observed: Observed, target: Pods, pods: Pods) -> dict[str, Any]:
    """Return the field that says which run has ended; empty: the wanted one has not."""
    wanted = target[LOCAL]["metadata"]["annotations"]
    mark = {"completed": next(value for key, value in wanted.items() if key.endswith("/spec-hash"))}
    pod = pods.get(LOCAL)
    is_done = (
        pod is not None
        and pod_state(pod, target[LOCAL], observed.now) is PodState.ENDED
        and pod["status"]["phase"] == "Succeeded"
    )
    known = (observed.resource.get("status") or {}).get("completed")
    return mark if is_done or known == mark["completed"] else {}


def _settled_pods(wanted: Pods, pods: Pods, now: datetime, *, is_completed: bool) -> PodSequence:
    """Return what becomes of pods; the coordinator's that has completed is left alone."""
    if not is_completed or LOCAL not in wanted:
        return sequence_pods(wanted, pods, now)
    others = sequence_pods({}, {host: pod for host, pod in pods.items() if host != LOCAL}, now)
    return PodSequence(others.create, (*others.keep, LOCAL), others.end, others.waits_for)


def _accepted(resource: PipelineResource) -> ConditionState:
    spec = resource.spec
    text = f"{pluralize(len(spec.stages), 'stage')} and {pluralize(len(spec.edges), 'edge')} are sound"
    return ConditionState(ConditionType.ACCEPTED, True, "Valid", text)


def _ready(
    resource: PipelineResource,
    hosts: Sequence[HostStatus],
    wanted: int,
    sequence: PodSequence,
    *,
    is_completed: bool,
) -> ConditionState:
    if is_completed:
        return ConditionState(
            ConditionType.READY, False, "Completed", "the sources have ended: the run is done"
        )
    if resource.is_suspended:
        text = "suspended: no pod runs; deploy it again, or set spec.suspend to false"
        return ConditionState(ConditionType.READY, False, "Suspended", text)
    return ready_state(hosts, wanted, is_updating=bool(sequence.end or sequence.waits_for))


def _summary(resource: PipelineResource, hosts: Sequence[HostStatus], wanted: int) -> dict[str, Any]:
    return {
        "stages": len(resource.spec.stages),
        "pods": f"{sum(host.is_ready for host in hosts)}/{wanted}",
        "hosts": [host.document() for host in hosts],
        "plan": [{"stage": stage.name, "host": stage.on} for stage in resource.spec.stages],
    }


def _status(observed: Observed, states: Sequence[ConditionState]) -> dict[str, Any]:
    generation = int(observed.resource["metadata"].get("generation") or 0)
    conditions = merge_conditions(_conditions(observed), states, generation, observed.now)
    return {"observedGeneration": generation, "conditions": conditions}


def _events(sequence: PodSequence, pods: Pods, issued: IssuedSecrets) -> tuple[Announcement, ...]:
    """Return the events of what is decided now."""
    events = [
        Announcement("Normal", "PodEnded", f"pod {pods[host]['metadata']['name']} of {host} is ended")
        for host in sequence.end
    ]
    if issued.renewed:
        text = f"new certificates for {', '.join(issued.renewed)}"
        events.append(Announcement("Normal", "CertificatesIssued", text))
    return tuple(events)


def _again_after(
    issued: IssuedSecrets, pods: Pods, now: datetime, others: Sequence[datetime] = ()
) -> float | None:
    """Return when something is due although nothing changes: certificates, pods that are not gone, others."""
    due = [*others, *([issued.renew_after] if issued.renew_after else [])]
    due += [_gives_up(pod) for pod in pods.values() if pod["metadata"].get("deletionTimestamp")]
    left = [(at - now).total_seconds() for at in due if at > now]
    return max(1.0, min(left)) if left else None


def _gives_up(pod: Manifest) -> datetime:
    return parse_iso(pod["metadata"]["deletionTimestamp"]) + OVERDUE


def _keep(observed: Observed, pods: Pods, hosts: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Return the pods that stay, and the Secrets and ConfigMaps that any pod mounts until it is gone."""
    kept = {(PODS.kind, pods[host]["metadata"]["name"]) for host in hosts}
    kinds = (SECRETS, CONFIG_MAPS)
    owned = {(kind.kind, each["metadata"]["name"]) for kind in kinds for each in observed.owned.get(kind, ())}
    mounted = {each for pod in pods.values() for each in _mounted(pod)}
    return frozenset(kept | (mounted & owned))


def _mounted(pod: Manifest) -> list[tuple[str, str]]:
    names = []
    for volume in pod.get("spec", {}).get("volumes") or ():
        if "secret" in volume:
            names.append((SECRETS.kind, volume["secret"]["secretName"]))
        for source in (volume.get("projected") or {}).get("sources") or ():
            if "configMap" in source:
                names.append((CONFIG_MAPS.kind, source["configMap"]["name"]))
    return names


def _everything(observed: Observed) -> list[tuple[ResourceKind, Manifest]]:
    return [(kind, each) for kind in _OWNED for each in observed.owned.get(kind, ())]


def _refuse(observed: Observed, pods: Pods, problems: Sequence[Problem]) -> Reconciled:
    """Return a status that says what is wrong; what runs by an earlier spec goes on."""
    text = describe(problems)
    accepted = ConditionState(ConditionType.ACCEPTED, False, "Invalid", text, is_warning=True)
    planned = ConditionState(ConditionType.PLANNED, False, "Invalid", "the spec is not accepted")
    what = ("Invalid", "the spec is not accepted", "the spec must be changed")
    return _hold(observed, pods, (accepted, planned), what)


def _wait_for_plan(
    observed: Observed, pods: Pods, accepted: ConditionState, placed: PlacedPipeline
) -> Reconciled:
    """Return a status that says why no stage has a host yet; what runs by an earlier spec goes on."""
    what = (placed.condition.reason, "the stages have no host yet", "a plan is not possible")
    held = _hold(observed, pods, (accepted, placed.condition), what)
    return replace(held, again_after=_again_after(IssuedSecrets(), pods, observed.now, placed.due))


def _hold(
    observed: Observed, pods: Pods, first: tuple[ConditionState, ...], what: tuple[str, str, str]
) -> Reconciled:
    """Return a status while nothing can be made: all that is there stays."""
    reason, text, doing = what
    hosts = [host_status(host, pod) for host, pod in pods.items() if host]
    old = f"; {pluralize(len(hosts), 'pod')} of the last accepted spec stay" if hosts else ""
    ready = ConditionState(ConditionType.READY, False, reason, f"{text}{old}")
    progress = ConditionState(ConditionType.PROGRESSING, False, reason, doing)
    states = (*first, ready, progress)
    status = _status(observed, states)
    status |= {
        "pods": f"{sum(host.is_ready for host in hosts)}/{len(hosts)}",
        "hosts": [each.document() for each in hosts],
    }
    before = observed.resource.get("status") or {}
    status |= {name: before[name] for name in ("plan", "placement") if name in before}
    keep = frozenset((kind.kind, each["metadata"]["name"]) for kind, each in _everything(observed))
    return Reconciled(status=status, announcements=announce(_conditions(observed), states), keep=keep)


def _delete(observed: Observed, pods: Pods) -> Reconciled:
    """Return what is left of a Pipeline that is being deleted: the coordinator ends first."""
    left = _everything(observed)
    if not left:
        return Reconciled(is_finished=True)
    sequence = sequence_pods({}, pods, observed.now)
    again = _again_after(IssuedSecrets(), pods, observed.now)
    if sequence.waits_for != LOCAL:
        return Reconciled(again_after=again)
    name = pods[LOCAL]["metadata"]["name"]
    keep = {(kind.kind, each["metadata"]["name"]) for kind, each in left}
    if sequence.end:
        keep.discard((PODS.kind, name))
    return Reconciled(again_after=again, keep=frozenset(keep))
