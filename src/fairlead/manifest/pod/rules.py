"""Rules about nodes and neighbours, from Kubernetes' words to ours."""

from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.cluster import objects
from fairlead.errors import ManifestError
from fairlead.manifest.types import kubernetes
from fairlead.request import (
    NOTHING,
    HostPort,
    LabelTerm,
    MatchOperator,
    PodAffinityTerm,
    PreferredNodes,
    Selector,
    Taint,
    TaintEffect,
    Toleration,
    TopologySpread,
)

_ANY: Final = "*"
_NAME: Final = "kubernetes.io/metadata.name"
"""The label that every namespace has: its name."""


def label_terms(where: str, requirements: Iterable[objects.Requirement]) -> tuple[LabelTerm, ...]:
    """Return requirements on labels, or say which of them has no such operator."""
    found = []
    for at, each in enumerate(requirements):
        try:
            match = MatchOperator(each.operator)
        except ValueError:
            raise ManifestError(
                f"{where}[{at}].operator: {each.operator!r}", f"known: {', '.join(MatchOperator)}"
            ) from None
        if match in (MatchOperator.IN, MatchOperator.NOT_IN) and not each.values:
            raise ManifestError(f"{where}[{at}].values: {match} of nothing", "name at least one value")
        found.append(LabelTerm(each.key, match, each.values))
    return tuple(found)


def label_selector(where: str, given: kubernetes.LabelSelector | None) -> Selector:
    """Return a selector of pods; one that is not there selects nothing, an empty one everything."""
    if given is None:
        return NOTHING
    by_label = Selector.of(given.match_labels).terms
    return Selector((*by_label, *label_terms(f"{where}.matchExpressions", given.match_expressions)))


def node_affinity(where: str, given: objects.NodeAffinity) -> tuple[Selector, ...]:
    """Return the selectors of nodes of which one must hold; a term that says nothing selects none."""
    if given.required is None:
        return ()
    place = f"{where}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    found = [
        _node_selector(f"{place}[{at}]", term) for at, term in enumerate(given.required.node_selector_terms)
    ]
    kept = tuple(each for each in found if each.terms or each.names)
    if not kept:
        raise ManifestError(f"{place}: no term selects anything", "name at least one label")
    return kept


def preferred_nodes(where: str, given: objects.NodeAffinity) -> tuple[PreferredNodes, ...]:
    """Return the selectors of nodes that would be liked."""
    place = f"{where}.preferredDuringSchedulingIgnoredDuringExecution"
    return tuple(
        PreferredNodes(each.weight, _node_selector(f"{place}[{at}].preference", each.preference))
        for at, each in enumerate(given.preferred)
    )


def _node_selector(where: str, term: objects.NodeSelectorTerm) -> Selector:
    return Selector(
        label_terms(f"{where}.matchExpressions", term.match_expressions),
        label_terms(f"{where}.matchFields", term.match_fields),
    )


def pod_affinity_terms(
    where: str, given: kubernetes.PodAffinity, labels: Mapping[str, str]
) -> tuple[PodAffinityTerm, ...]:
    """Return musts and wishes about other pods; `labels` are the pod's own."""
    required = f"{where}.requiredDuringSchedulingIgnoredDuringExecution"
    preferred = f"{where}.preferredDuringSchedulingIgnoredDuringExecution"
    musts = [
        _pod_affinity_term(f"{required}[{at}]", each, 0, labels) for at, each in enumerate(given.required)
    ]
    wishes = [
        _pod_affinity_term(f"{preferred}[{at}].podAffinityTerm", each.pod_affinity_term, each.weight, labels)
        for at, each in enumerate(given.preferred)
    ]
    return (*musts, *wishes)


def _pod_affinity_term(
    where: str, term: kubernetes.PodTerm, weight: int, labels: Mapping[str, str]
) -> PodAffinityTerm:
    if not term.topology_key:
        raise ManifestError(f"{where}.topologyKey: it has none", "write topologyKey: kubernetes.io/hostname")
    who = label_selector(f"{where}.labelSelector", term.label_selector)
    if term.label_selector is not None:
        like = _own_label_terms(labels, term.match_label_keys, MatchOperator.IN)
        unlike = _own_label_terms(labels, term.mismatch_label_keys, MatchOperator.NOT_IN)
        who = Selector((*who.terms, *like, *unlike))
    return PodAffinityTerm(who, term.topology_key, _namespaces(where, term), weight)


def _namespaces(where: str, term: kubernetes.PodTerm) -> tuple[str, ...]:
    """Return the namespaces that a term speaks of; empty: that of the pod."""
    if term.namespace_selector is None:
        return term.namespaces
    said = label_selector(f"{where}.namespaceSelector", term.namespace_selector).terms
    if not said or any((each.key, each.match) != (_NAME, MatchOperator.IN) for each in said):
        return (_ANY,)  # other labels of namespaces no file has
    named = set.intersection(*(set(each.values) for each in said))
    return tuple(sorted({*term.namespaces, *named})) or ("",)


def _own_label_terms(
    labels: Mapping[str, str], keys: Iterable[str], match: MatchOperator
) -> tuple[LabelTerm, ...]:
    """Return what is said of the pod's own labels: that others have them as well, or have them otherwise."""
    return tuple(LabelTerm(key, match, (labels[key],)) for key in keys if key in labels)


def topology_spread(
    where: str, given: Iterable[kubernetes.SpreadConstraint], labels: Mapping[str, str]
) -> tuple[TopologySpread, ...]:
    """Return how evenly pods must lie."""
    return tuple(
        _topology_spread(f"{where}.topologySpreadConstraints[{at}]", each, labels)
        for at, each in enumerate(given)
    )


def _topology_spread(
    where: str, given: kubernetes.SpreadConstraint, labels: Mapping[str, str]
) -> TopologySpread:
    if given.max_skew < 1:
        raise ManifestError(f"{where}.maxSkew: {given.max_skew}", "write 1 or more")
    if not given.topology_key:
        raise ManifestError(f"{where}.topologyKey: it has none", "name a label of nodes")
    who = label_selector(f"{where}.labelSelector", given.label_selector)
    own = _own_label_terms(labels, given.match_label_keys, MatchOperator.IN)
    when = ("DoNotSchedule", "ScheduleAnyway")
    policy = ("Honor", "Ignore")
    return TopologySpread(
        who if who == NOTHING else Selector((*who.terms, *own)),
        given.topology_key,
        given.max_skew,
        _one_of(f"{where}.whenUnsatisfiable", given.when_unsatisfiable, when) == "DoNotSchedule",
        given.min_domains,
        _one_of(f"{where}.nodeAffinityPolicy", given.node_affinity_policy, policy) == "Honor",
        _one_of(f"{where}.nodeTaintsPolicy", given.node_taints_policy, policy) == "Honor",
    )


def _one_of(where: str, text: str, known: tuple[str, ...]) -> str:
    if text not in known:
        raise ManifestError(f"{where}: {text!r}", f"known: {', '.join(known)}")
    return text


def tolerations(where: str, given: Iterable[objects.Toleration]) -> tuple[Toleration, ...]:
    """Return the taints that are put up with."""
    return tuple(_toleration(f"{where}.tolerations[{at}]", each) for at, each in enumerate(given))


def _toleration(where: str, given: objects.Toleration) -> Toleration:
    if given.operator not in ("", "Equal", "Exists"):
        raise ManifestError(f"{where}.operator: {given.operator!r}", "known: Equal, Exists")
    exists = given.operator == "Exists"
    if not given.key and not exists:
        raise ManifestError(f"{where}.key: it has none", "name a taint, or write operator: Exists")
    return Toleration(given.key, given.value, exists, effect(where, given.effect) if given.effect else None)


def taint(where: str, given: objects.Taint) -> Taint:
    """Return what a node says to keep pods away."""
    return Taint(given.key, given.value, effect(where, given.effect))


def effect(where: str, text: str) -> TaintEffect:
    """Return what a taint does."""
    try:
        return TaintEffect(text)
    except ValueError:
        raise ManifestError(f"{where}.effect: {text!r}", f"known: {', '.join(TaintEffect)}") from None


def ports(where: str, spec: kubernetes.PodSpec) -> tuple[HostPort, ...]:
    """Return the host's ports that a pod takes; in the host's network, all of its ports are the host's."""
    sidecars = [
        (f"initContainers[{at}]", each)
        for at, each in enumerate(spec.init_containers)
        if each.restart_policy == "Always"
    ]
    running = [(f"containers[{at}]", each) for at, each in enumerate(spec.containers)]
    found = []
    for place, container in (*sidecars, *running):
        for at, each in enumerate(container.ports):
            number = each.host_port or (each.container_port if spec.host_network else 0)
            if not 0 <= number <= 65535:
                raise ManifestError(
                    f"{where}.{place}.ports[{at}].hostPort: {number}", "a port is a number from 1 to 65535"
                )
            if number:
                found.append(HostPort(number, each.protocol, each.host_ip))
    return tuple(found)
