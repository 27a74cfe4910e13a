"""The controller of Augmentations: from what is observed to the objects that must exist. Pure."""

import secrets as random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from fairlead import __version__
from fairlead.augmentobjects.application_pod import application_pod
from fairlead.augmentobjects.certificates import StoreCertificate, decide_certificate
from fairlead.augmentobjects.claims import (
    TARGET,
    ObservedClaim,
    claim_names,
    observed_claims,
    serving_number,
    wanted_claims,
)
from fairlead.augmentobjects.credentials import StoreCredentials, decide_credentials
from fairlead.augmentobjects.move_status import move_document, move_state
from fairlead.augmentobjects.moves import DataMove, MoveFacts, decide_move
from fairlead.augmentobjects.names import (
    APPLICATION,
    AUGMENTATIONS,
    DATA,
    STORE,
    by_name,
    credentials_name,
    store_name,
)
from fairlead.augmentobjects.pods import PodPlan, plan_pods, pods_by_part
from fairlead.augmentobjects.problems import AugmentationCondition, accepted_state, problems_of
from fairlead.augmentobjects.report import (
    EVERY,
    EVERY_FROZEN,
    StoreReport,
    joined_state,
    read_report,
    report_page,
    same_state,
)
from fairlead.augmentobjects.resource import AugmentationResource, read_resource
from fairlead.augmentobjects.sizes import SizeDecision, StorageFacts, decide_sizes
from fairlead.augmentobjects.status import (
    node_addresses,
    pod_readiness,
    pods_document,
    progress_state,
    ready_state,
)
from fairlead.augmentobjects.store_pod import FREEZE, QUOTA, store_pod, with_annotation
from fairlead.augmentobjects.wiring import network_policy, services, settings_map, url_of
from fairlead.errors import AugmentationError
from fairlead.keys import AUGMENTATION_SETTINGS
from fairlead.ownedobjects.certificates import Issuer
from fairlead.ownedobjects.conditions import ConditionState, announce, merge_conditions
from fairlead.ownedobjects.kinds import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    digest,
)
from fairlead.reconcile import Announcement, Manifest, Observed, Reconciled, ResourceKind
from fairlead.units import Bytes, format_quantity, parse_quantity

IMAGE: Final = f"localhost/fairlead-store:{__version__}"
_MEBIBYTE: Final = 1 << 20
_FROZEN_AGAIN: Final = 10.0
"""Seconds until the next look at a freeze, whatever happens: it is given up when it takes too long."""
_OWNED: Final = (VOLUME_CLAIMS, SECRETS, CONFIG_MAPS, SERVICES, NETWORK_POLICIES, PODS)


def new_secret() -> str:
    """Return a random text of 256 bits."""
    return random.token_hex(32)


@dataclass(frozen=True, slots=True)
class AugmentationController:
    """A `ResourceController` of Augmentations."""

    issuer: Issuer
    image: str = IMAGE
    """Of stores whose Augmentation names none."""
    new_secret: Callable[[], str] = new_secret
    is_shown: bool = False
    """Whether all objects are for being shown: none waits for another."""

    @property
    def resource(self) -> ResourceKind:
        """Augmentations."""
        return AUGMENTATIONS

    @property
    def owns(self) -> tuple[ResourceKind, ...]:
        """What an Augmentation becomes."""
        return _OWNED

    @property
    def watches(self) -> tuple[ResourceKind, ...]:
        """Nodes, for the address of a store, and storage classes, to say which are missing."""
        return (NODES, STORAGE_CLASSES)

    def reconcile(self, observed: Observed) -> Reconciled:
        """Return what must be so."""
        try:
            resource = read_resource(observed.resource)
            problems = problems_of(resource)
        except AugmentationError as error:
            resource, problems = None, [f"spec.{error}"]
        if observed.resource["metadata"].get("deletionTimestamp"):
            return _delete(observed, keeps_data=resource is None or not resource.deletes_data)
        if resource is None or problems:
            return _refuse(observed, problems)
        return self._make(observed, resource)

    def _make(self, observed: Observed, resource: AugmentationResource) -> Reconciled:
        claims = observed_claims(observed.owned.get(VOLUME_CLAIMS, ()))
        resource = replace(resource, data_claim=serving_number(resource.name, claims))
        stored = by_name(tuple(observed.owned.get(SECRETS, ())))
        credentials = decide_credentials(
            resource, stored.get(credentials_name(resource.name)), self.new_secret, observed.now
        )
        certificate = decide_certificate(resource, stored, self.issuer, observed.now)
        pods = pods_by_part(observed.owned.get(PODS, ()))
        page = report_page(resource, pods.get(STORE), certificate.authority, credentials, observed.now)
        reading = observed.pages.get(page) if page is not None else None
        report = read_report(reading, observed.now)
        sizes = decide_sizes(
            resource, _facts(observed, claims, report, is_asked=page is not None and not reading)
        )
        facts = _move_facts(observed, claims, pods, report, sizes, self.image)
        move = decide_move(resource, facts)
        settings = {QUOTA: f"{sizes.quota}\n", **({FREEZE: f"{move.freeze}\n"} if move.freeze else {})}
        running = replace(resource, application=None) if move.stops_application else resource
        plan = self._plan_pods(observed, running, pods, claims, digest([settings, credentials.token]))
        states = (
            *_states(resource, pods, plan, sizes, move),
            joined_state(resource, report, observed.now),
            *same_state(resource, report, pods),
        )
        status = _status(observed, states) | _summary(observed, resource, claims, pods, sizes, certificate)
        status |= _use(observed, report)
        if document := move_document(resource, move, facts):
            status["reclaim"] = document
        said = (*announce(_conditions(observed), states), *_events(plan, pods, credentials, certificate))
        joined = (settings_map(resource, settings), *services(resource), network_policy(resource))
        secrets = (*certificate.secrets, credentials.secret(resource))
        return Reconciled(
            objects=(*wanted_claims(resource, claims), *secrets, *joined, *plan.objects, *move.objects),
            status=status,
            announcements=said,
            again_after=_again_after(observed.now, plan, credentials, certificate, move),
            keep=_kept(claims, move),
            pages={} if page is None else {page: EVERY_FROZEN if move.freeze else EVERY},
        )

    def _plan_pods(
        self,
        observed: Observed,
        resource: AugmentationResource,
        pods: Mapping[str, Manifest],
        claims: Mapping[str, ObservedClaim],
        settings: str,
    ) -> PodPlan:
        program = application_pod(resource, self.image)
        store = with_annotation(store_pod(resource, self.image), AUGMENTATION_SETTINGS, settings)
        wanted = {**({APPLICATION: program} if program is not None else {}), STORE: store}
        serving = [claims[name] for name in claim_names(resource).values() if name in claims]
        has_volumes = bool(serving) and all(claim.is_located for claim in serving)
        is_located = self.is_shown or has_volumes
        return plan_pods(resource, wanted, pods, is_located=is_located, now=observed.now)


def _facts(
    observed: Observed, claims: Mapping[str, ObservedClaim], report: StoreReport | None, *, is_asked: bool
) -> StorageFacts:
    quota = (observed.resource.get("status") or {}).get("quota")
    classes = [each["metadata"]["name"] for each in observed.watched.get(STORAGE_CLASSES, ())]
    return StorageFacts(
        claims,
        report.used if report is not None else None,
        Bytes(parse_quantity(str(quota))) if quota else None,
        observed.conflicts,
        classes if STORAGE_CLASSES in observed.watched else None,
        is_asked,
    )


def _move_facts(
    observed: Observed,
    claims: Mapping[str, ObservedClaim],
    pods: Mapping[str, Manifest],
    report: StoreReport | None,
    sizes: SizeDecision,
    image: str,
) -> MoveFacts:
    before = (observed.resource.get("status") or {}).get("reclaim") or {}
    return MoveFacts(claims, pods, report, sizes.sized.is_true, before, image, observed.now)


def _kept(claims: Mapping[str, ObservedClaim], move: DataMove) -> frozenset[tuple[str, str]]:
    """Return the claims that stay although they do not serve: all whose data may be in no other one."""
    names = (name for name, each in claims.items() if each.part == DATA and each.stage != TARGET)
    return frozenset((VOLUME_CLAIMS.kind, name) for name in names if name not in move.release)


def _use(observed: Observed, report: StoreReport | None) -> dict[str, str]:
    """Return how much is used, in whole mebibytes, and the most that was; as before where it is not known."""
    before = observed.resource.get("status") or {}
    known = {name: before[name] for name in ("used", "peak") if name in before}
    if report is None or report.used is None:
        return known
    used = -(-report.used // _MEBIBYTE) * _MEBIBYTE
    peak = max(used, parse_quantity(str(known.get("peak", "0"))))
    return {"used": format_quantity(used), "peak": format_quantity(peak)}


def _states(
    resource: AugmentationResource,
    pods: Mapping[str, Manifest],
    plan: PodPlan,
    sizes: SizeDecision,
    move: DataMove,
) -> tuple[ConditionState, ...]:
    wanted = (STORE,) if resource.application is None else (STORE, APPLICATION)
    ready = ready_state(pod_readiness(pods), wanted, sizes.storage)
    return (
        accepted_state([]),
        sizes.storage,
        sizes.sized,
        ready,
        progress_state(plan, ready, sizes.sized, move.message if move.is_under_way else ""),
        *move_state(move),
    )


def _summary(
    observed: Observed,
    resource: AugmentationResource,
    claims: Mapping[str, ObservedClaim],
    pods: Mapping[str, Manifest],
    sizes: SizeDecision,
    certificate: StoreCertificate,
) -> dict[str, Any]:
    known = pod_readiness(pods)
    node = known[STORE].node if STORE in known else ""
    service = by_name(tuple(observed.owned.get(SERVICES, ()))).get(store_name(resource.name))
    url = url_of(resource, service, node_addresses(observed.watched.get(NODES, ())), node)
    summary = {
        "quota": format_quantity(sizes.quota),
        "node": node,
        "url": url or (observed.resource.get("status") or {}).get("url", ""),
        "fingerprint": certificate.fingerprint,
    }
    return {name: value for name, value in summary.items() if value} | {
        "claims": [claim.document() for claim in claims.values()],
        "pods": pods_document(known),
    }


def _conditions(observed: Observed) -> list[dict[str, Any]]:
    return list((observed.resource.get("status") or {}).get("conditions") or ())


def _status(observed: Observed, states: Sequence[ConditionState]) -> dict[str, Any]:
    generation = int(observed.resource["metadata"].get("generation") or 0)
    conditions = merge_conditions(_conditions(observed), states, generation, observed.now)
    return {"observedGeneration": generation, "conditions": conditions}


def _events(
    plan: PodPlan, pods: Mapping[str, Manifest], credentials: StoreCredentials, certificate: StoreCertificate
) -> tuple[Announcement, ...]:
    """Return the events of what is decided now."""
    events = [
        Announcement("Normal", "PodEnded", f"pod {pods[part]['metadata']['name']} is ended, for another one")
        for part in plan.end
    ]
    if credentials.is_rotated:
        text = "the store has a new token; the one before is accepted for ten more minutes"
        events.append(Announcement("Normal", "TokenRotated", text))
    if certificate.is_renewed:
        text = f"the store has a new certificate, {certificate.fingerprint}: invite its device again"
        events.append(Announcement("Warning", "CertificateIssued", text))
    return tuple(events)


def _again_after(
    now: datetime, plan: PodPlan, credentials: StoreCredentials, certificate: StoreCertificate, move: DataMove
) -> float | None:
    """Return when something is due although nothing changes."""
    due = [certificate.renew_after, plan.again_at, credentials.previous_until]
    left = [(at - now).total_seconds() for at in due if at is not None]
    return max(1.0, min([*left, *([_FROZEN_AGAIN] if move.freeze else [])]))


def _refuse(observed: Observed, problems: Sequence[str]) -> Reconciled:
    """Return a status that says what is wrong; what was made of an earlier spec stays."""
    pods = pod_readiness(pods_by_part(observed.owned.get(PODS, ())))
    old = "; what was made of the last accepted spec stays" if pods else ""
    states = (
        accepted_state(list(problems)),
        ConditionState(AugmentationCondition.READY, False, "Invalid", f"the spec is not accepted{old}"),
        ConditionState(AugmentationCondition.PROGRESSING, False, "Invalid", "the spec must be changed"),
    )
    before = observed.resource.get("status") or {}
    names = ("quota", "used", "peak", "node", "url", "fingerprint", "claims", "reclaim")
    status = {name: before[name] for name in names if name in before}
    status |= _status(observed, states) | {"pods": pods_document(pods)}
    keep = frozenset((kind.kind, each["metadata"]["name"]) for kind, each in _everything(observed))
    return Reconciled(status=status, announcements=announce(_conditions(observed), states), keep=keep)


def _everything(observed: Observed) -> list[tuple[ResourceKind, Manifest]]:
    return [(kind, each) for kind in _OWNED for each in observed.owned.get(kind, ())]


def _delete(observed: Observed, *, keeps_data: bool) -> Reconciled:
    """Return what is left of an Augmentation that is being deleted: its data, unless that goes as well."""
    left = _everything(observed)
    claims = {(kind.kind, each["metadata"]["name"]) for kind, each in left if kind == VOLUME_CLAIMS}
    others = len(left) - len(claims)
    if keeps_data:
        return Reconciled(keep=frozenset(claims), is_finished=not others)
    pods = observed.owned.get(PODS, ())
    return Reconciled(keep=frozenset(claims if pods else ()), is_finished=not left)
