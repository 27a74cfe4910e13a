"""The controller of Pipelines: from what is observed to the objects that must exist, and the status. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from fairlead import __version__
from fairlead.compat.times import parse_iso
from fairlead.errors import PipelineError
from fairlead.ownedobjects.certificates import Issuer
from fairlead.ownedobjects.conditions import ConditionState, announce, merge_conditions
from fairlead.ownedobjects.kinds import CONFIG_MAPS, NETWORK_POLICIES, NODES, PODS, SECRETS, SERVICES
from fairlead.ownedobjects.pod_state import GIVEN_UP, OVERDUE, is_given_up
from fairlead.pipeline.check import Problem
from fairlead.pipelineobjects.certificates import IssuedSecrets, issue
from fairlead.pipelineobjects.conditions import ConditionType
from fairlead.pipelineobjects.decision import RunDecision, RunTarget, choose_target, decide_run
from fairlead.pipelineobjects.names import LOCAL, PIPELINES, SLOTS
from fairlead.pipelineobjects.placed import PlacedPipeline, place_stages
from fairlead.pipelineobjects.problems import check_resource, describe
from fairlead.pipelineobjects.resource import PipelineResource, read_resource
from fairlead.pipelineobjects.scaled import scaled_stages
from fairlead.pipelineobjects.sequence import COORDINATOR, Place, PodSequence, place_of, sequence_end
from fairlead.pipelineobjects.status import (
    HostStatus,
    host_status,
    plan_state,
    progress_state,
    ready_state,
)
from fairlead.pipelineobjects.wiring import network_policy, service
from fairlead.reconcile import Announcement, Manifest, Observed, Reconciled, ResourceKind
from fairlead.units import pluralize

IMAGE: Final = f"localhost/fairlead-pipeline:{__version__}"
_OWNED: Final = (SECRETS, CONFIG_MAPS, SERVICES, NETWORK_POLICIES, PODS)
_UPDATING: Final = 5.0
"""Seconds after which an update is looked at again although no page was read."""
Pods = Mapping[Place, Manifest]


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
        pods = {place_of(pod): pod for pod in observed.owned.get(PODS, ())}
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
        return self._run(observed, choose_target(observed, placed.resource, pods, self.image), pods, placed)

    def _run(self, observed: Observed, target: RunTarget, pods: Pods, placed: PlacedPipeline) -> Reconciled:
        resource = target.resource
        decided = decide_run(observed, target, pods)
        sequence = decided.sequence
        secrets = _by_name(observed.owned.get(SECRETS, ()))
        issued = issue(resource, secrets, self.issuer, observed.now)
        hosts = _host_statuses(target, sequence, pods)
        ready = _ready(resource, hosts, decided)
        planned = plan_state(resource) if decided.rolled_back else placed.condition
        states = (_accepted(resource), planned, ready, _progress(decided, ready))
        status = _status(observed, states) | _summary(resource, hosts, len(decided.wanted)) | placed.status
        status |= {"completed": target.mark} if decided.is_completed else {}
        scaling, scaled = _scaling(observed, resource, decided)
        status |= scaling
        said = (*announce(_conditions(observed), states), *placed.announcements, *decided.announcements)
        again = _again_after(issued, pods, observed.now, placed.due, is_updating=decided.reads_page)
        return Reconciled(
            objects=(
                *issued.secrets,
                *([decided.file.config_map(resource)] if decided.file else ()),
                service(resource),
                network_policy(resource),
                *decided.objects,
            ),
            status=status,
            announcements=(*said, *scaled, *_events(sequence, pods, issued)),
            again_after=again,
            keep=_keep(observed, pods, sequence.keep),
            force=_force(resource, pods, observed.now),
            pages=decided.pages,
        )


def _scaling(
    observed: Observed, resource: PipelineResource, decided: RunDecision
) -> tuple[dict[str, Any], tuple[Announcement, ...]]:
    """Return what is said of replicas that follow the load, while a run goes on."""
    if not decided.is_live:
        return {}, ()
    entries, events = scaled_stages(observed.resource.get("status") or {}, resource.spec, decided.status)
    return ({"scaling": entries} if entries else {}), events


def _by_name(objects: Sequence[Manifest]) -> dict[str, Manifest]:
    return {each["metadata"]["name"]: each for each in objects}


def _conditions(observed: Observed) -> list[dict[str, Any]]:
    return list((observed.resource.get("status") or {}).get("conditions") or ())


def _accepted(resource: PipelineResource) -> ConditionState:
    spec = resource.spec
    text = f"{pluralize(len(spec.stages), 'stage')} and {pluralize(len(spec.edges), 'edge')} are sound"
    return ConditionState(ConditionType.ACCEPTED, True, "Valid", text)


def _host_statuses(target: RunTarget, sequence: PodSequence, pods: Pods) -> list[HostStatus]:
    """Return the pods in which the run is, those of hosts by the slot of the file."""
    places = [(host, "" if host == LOCAL else sequence.slots.get(host, "")) for host in target.wanted]
    return [
        host_status(place[0], pods[place]) for place in places if place in pods and place in sequence.keep
    ]


def _ready(resource: PipelineResource, hosts: Sequence[HostStatus], decided: RunDecision) -> ConditionState:
    if decided.is_completed:
        return ConditionState(
            ConditionType.READY, False, "Completed", "the sources have ended: the run is done"
        )
    if resource.is_suspended:
        text = "suspended: no pod runs; deploy it again, or set spec.suspend to false"
        return ConditionState(ConditionType.READY, False, "Suspended", text)
    is_stopping = not decided.is_live and bool(decided.sequence.end or decided.sequence.waits_for)
    return ready_state(hosts, len(decided.wanted), is_updating=is_stopping)


def _progress(decided: RunDecision, ready: ConditionState) -> ConditionState:
    return progress_state(
        decided.sequence,
        ready,
        doing=decided.doing,
        rolled_back=decided.rolled_back,
        is_lost=decided.is_lost,
    )


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
        Announcement("Normal", "PodEnded", f"pod {pods[place]['metadata']['name']} of {place[0]} is ended")
        for place in sequence.end
    ]
    if issued.renewed:
        text = f"new certificates for {', '.join(issued.renewed)}"
        events.append(Announcement("Normal", "CertificatesIssued", text))
    return tuple(events)


def _again_after(
    issued: IssuedSecrets,
    pods: Pods,
    now: datetime,
    others: Sequence[datetime] = (),
    *,
    is_updating: bool = False,
) -> float | None:
    """Return when something is due although nothing changes: certificates, lost pods, a page, others."""
    due = [*others, *([issued.renew_after] if issued.renew_after else [])]
    deleted = [pod["metadata"].get("deletionTimestamp") for pod in pods.values()]
    due += [parse_iso(at) + late for at in deleted if at for late in (OVERDUE, GIVEN_UP)]
    left = [(at - now).total_seconds() for at in due if at > now]
    left += [_UPDATING] if is_updating else []
    return max(1.0, min(left)) if left else None


def _force(resource: PipelineResource, pods: Pods, now: datetime) -> frozenset[tuple[str, str]]:
    """Return the pods on lost nodes that may be deleted: those that can do no harm if they still run.

    The worker of a host ends its run without a coordinator. A volume must not be taken from a node that may
    still write to it; that of the coordinator's state is what keeps a second one from writing.
    """
    return frozenset(
        (PODS.kind, pod["metadata"]["name"])
        for (host, _), pod in pods.items()
        if is_given_up(pod, now) and (resource.state_claim if host == LOCAL else not _has_claim(pod))
    )


def _has_claim(pod: Manifest) -> bool:
    return any("persistentVolumeClaim" in volume for volume in pod.get("spec", {}).get("volumes") or ())


def _keep(observed: Observed, pods: Pods, places: Sequence[Place]) -> frozenset[tuple[str, str]]:
    """Return the pods that stay, and the Secrets and ConfigMaps that any pod mounts until it is gone."""
    kept = {
        (PODS.kind, pods[place]["metadata"]["name"])
        for place in places
        if not is_given_up(pods[place], observed.now)
    }
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
    hosts = [host_status(host, pod) for (host, slot), pod in pods.items() if host and slot in ("", SLOTS[0])]
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
    sequence = sequence_end(pods, observed.now)
    again = _again_after(IssuedSecrets(), pods, observed.now)
    force = frozenset(
        (PODS.kind, pod["metadata"]["name"]) for pod in pods.values() if is_given_up(pod, observed.now)
    )
    if sequence.waits_for != LOCAL:
        return Reconciled(again_after=again, force=force)
    name = pods[COORDINATOR]["metadata"]["name"]
    keep = {(kind.kind, each["metadata"]["name"]) for kind, each in left} - force
    if sequence.end:
        keep.discard((PODS.kind, name))
    return Reconciled(again_after=again, keep=frozenset(keep), force=force)
