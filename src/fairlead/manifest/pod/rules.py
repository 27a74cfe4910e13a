"""Affinity, spread, tolerations and ports: from Kubernetes' types to ours."""

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
"""The label of every namespace that holds its name."""


def label_terms(where: str, requirements: Iterable[objects.Requirement]) -> tuple[LabelTerm, ...]:
    """Return requirements on labels, or reject an unknown operator with its place."""
    terms = []
    for at, requirement in enumerate(requirements):
        try:
            match = MatchOperator(requirement.operator)
        except ValueError:
            raise ManifestError(
                f"{where}[{at}].operator: {requirement.operator!r}", f"known: {', '.join(MatchOperator)}"
            ) from None
        if match in (MatchOperator.IN, MatchOperator.NOT_IN) and not requirement.values:
            raise ManifestError(f"{where}[{at}].values: {match} without values", "name at least one value")
        terms.append(LabelTerm(requirement.key, match, requirement.values))
    return tuple(terms)


def label_selector(where: str, manifest: kubernetes.LabelSelector | None) -> Selector:
    """Return a selector of pods; a missing selector selects nothing, an empty one everything."""
    if manifest is None:
        return NOTHING
    by_label = Selector.of(manifest.match_labels).terms
    return Selector((*by_label, *label_terms(f"{where}.matchExpressions", manifest.match_expressions)))


def node_affinity(where: str, affinity: objects.NodeAffinity) -> tuple[Selector, ...]:
    """Return the node selectors of which one must match; an empty term matches no node."""
    if affinity.required is None:
        return ()
    place = f"{where}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    selectors = [
        _node_selector(f"{place}[{at}]", term)
        for at, term in enumerate(affinity.required.node_selector_terms)
    ]
    usable = tuple(selector for selector in selectors if selector.terms or selector.names)
    if not usable:
        raise ManifestError(f"{place}: no term selects anything", "name at least one label")
    return usable


def preferred_nodes(where: str, affinity: objects.NodeAffinity) -> tuple[PreferredNodes, ...]:
    """Return the preferred node selectors, with their weights."""
    place = f"{where}.preferredDuringSchedulingIgnoredDuringExecution"
    return tuple(
        PreferredNodes(preferred.weight, _node_selector(f"{place}[{at}].preference", preferred.preference))
        for at, preferred in enumerate(affinity.preferred)
    )


def _node_selector(where: str, term: objects.NodeSelectorTerm) -> Selector:
    return Selector(
        label_terms(f"{where}.matchExpressions", term.match_expressions),
        label_terms(f"{where}.matchFields", term.match_fields),
    )


def pod_affinity_terms(
    where: str, affinity: kubernetes.PodAffinity, labels: Mapping[str, str]
) -> tuple[PodAffinityTerm, ...]:
    """Return required and preferred terms on other pods; `labels` are the pod's own."""
    required_at = f"{where}.requiredDuringSchedulingIgnoredDuringExecution"
    preferred_at = f"{where}.preferredDuringSchedulingIgnoredDuringExecution"
    required = [
        _pod_affinity_term(f"{required_at}[{at}]", term, 0, labels)
        for at, term in enumerate(affinity.required)
    ]
    preferred = [
        _pod_affinity_term(
            f"{preferred_at}[{at}].podAffinityTerm", term.pod_affinity_term, term.weight, labels
        )
        for at, term in enumerate(affinity.preferred)
    ]
    return (*required, *preferred)


def _pod_affinity_term(
    where: str, term: kubernetes.PodTerm, weight: int, labels: Mapping[str, str]
) -> PodAffinityTerm:
    if not term.topology_key:
        raise ManifestError(f"{where}.topologyKey: missing", "write topologyKey: kubernetes.io/hostname")
    selector = label_selector(f"{where}.labelSelector", term.label_selector)
    if term.label_selector is not None:
        same = _own_label_terms(labels, term.match_label_keys, MatchOperator.IN)
        different = _own_label_terms(labels, term.mismatch_label_keys, MatchOperator.NOT_IN)
        selector = Selector((*selector.terms, *same, *different))
    return PodAffinityTerm(selector, term.topology_key, _namespaces(where, term), weight)


def _namespaces(where: str, term: kubernetes.PodTerm) -> tuple[str, ...]:
    """Return the namespaces of a term; empty: the pod's own namespace."""
    if term.namespace_selector is None:
        return term.namespaces
    terms = label_selector(f"{where}.namespaceSelector", term.namespace_selector).terms
    if not terms or any((term_.key, term_.match) != (_NAME, MatchOperator.IN) for term_ in terms):
        return (_ANY,)  # files hold no other labels of namespaces
    named = set.intersection(*(set(term_.values) for term_ in terms))
    return tuple(sorted({*term.namespaces, *named})) or ("",)


def _own_label_terms(
    labels: Mapping[str, str], keys: Iterable[str], match: MatchOperator
) -> tuple[LabelTerm, ...]:
    """Return terms on the pod's own labels: that other pods have the same value, or another value."""
    return tuple(LabelTerm(key, match, (labels[key],)) for key in keys if key in labels)


def topology_spread(
    where: str, constraints: Iterable[kubernetes.SpreadConstraint], labels: Mapping[str, str]
) -> tuple[TopologySpread, ...]:
    """Return the topology spread constraints of a pod."""
    return tuple(
        _topology_spread(f"{where}.topologySpreadConstraints[{at}]", constraint, labels)
        for at, constraint in enumerate(constraints)
    )


def _topology_spread(
    where: str, constraint: kubernetes.SpreadConstraint, labels: Mapping[str, str]
) -> TopologySpread:
    if constraint.max_skew < 1:
        raise ManifestError(f"{where}.maxSkew: {constraint.max_skew}", "write 1 or more")
    if not constraint.topology_key:
        raise ManifestError(f"{where}.topologyKey: missing", "name a label of nodes")
    selector = label_selector(f"{where}.labelSelector", constraint.label_selector)
    own = _own_label_terms(labels, constraint.match_label_keys, MatchOperator.IN)
    actions = ("DoNotSchedule", "ScheduleAnyway")
    policies = ("Honor", "Ignore")
    return TopologySpread(
        selector if selector == NOTHING else Selector((*selector.terms, *own)),
        constraint.topology_key,
        constraint.max_skew,
        _one_of(f"{where}.whenUnsatisfiable", constraint.when_unsatisfiable, actions) == "DoNotSchedule",
        constraint.min_domains,
        _one_of(f"{where}.nodeAffinityPolicy", constraint.node_affinity_policy, policies) == "Honor",
        _one_of(f"{where}.nodeTaintsPolicy", constraint.node_taints_policy, policies) == "Honor",
    )


def _one_of(where: str, text: str, known: tuple[str, ...]) -> str:
    if text not in known:
        raise ManifestError(f"{where}: {text!r}", f"known: {', '.join(known)}")
    return text


def tolerations(where: str, manifests: Iterable[objects.Toleration]) -> tuple[Toleration, ...]:
    """Return the tolerations of a pod."""
    return tuple(_toleration(f"{where}.tolerations[{at}]", manifest) for at, manifest in enumerate(manifests))


def _toleration(where: str, manifest: objects.Toleration) -> Toleration:
    if manifest.operator not in ("", "Equal", "Exists"):
        raise ManifestError(f"{where}.operator: {manifest.operator!r}", "known: Equal, Exists")
    exists = manifest.operator == "Exists"
    if not manifest.key and not exists:
        raise ManifestError(f"{where}.key: missing", "name a taint, or write operator: Exists")
    return Toleration(
        manifest.key, manifest.value, exists, effect(where, manifest.effect) if manifest.effect else None
    )


def taint(where: str, manifest: objects.Taint) -> Taint:
    """Return a taint of a node."""
    return Taint(manifest.key, manifest.value, effect(where, manifest.effect))


def effect(where: str, text: str) -> TaintEffect:
    """Return the effect of a taint."""
    try:
        return TaintEffect(text)
    except ValueError:
        raise ManifestError(f"{where}.effect: {text!r}", f"known: {', '.join(TaintEffect)}") from None


def ports(where: str, spec: kubernetes.PodSpec) -> tuple[HostPort, ...]:
    """Return the host ports of a pod; with hostNetwork, all of its container ports are host ports."""
    sidecars = [
        (f"initContainers[{at}]", container)
        for at, container in enumerate(spec.init_containers)
        if container.restart_policy == "Always"
    ]
    running = [(f"containers[{at}]", container) for at, container in enumerate(spec.containers)]
    host_ports = []
    for place, container in (*sidecars, *running):
        for at, port in enumerate(container.ports):
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if not 0 <= number <= 65535:
                raise ManifestError(
                    f"{where}.{place}.ports[{at}].hostPort: {number}", "a port is a number from 1 to 65535"
                )
            if number:
                host_ports.append(HostPort(number, port.protocol, port.host_ip))
    return tuple(host_ports)
