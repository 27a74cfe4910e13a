"""Rules about nodes and neighbours, from Kubernetes' words to ours."""

from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.cluster import objects
from fairlead.errors import ManifestError
from fairlead.manifest import shapes
from fairlead.request import (
    Effect,
    Match,
    Neighbour,
    Port,
    Preference,
    Selector,
    Spread,
    Taint,
    Term,
    Toleration,
)

_ANY: Final = "*"


def terms(where: str, requirements: Iterable[objects.Requirement]) -> tuple[Term, ...]:
    """Return requirements on labels, or say which of them has no such operator."""
    found = []
    for at, each in enumerate(requirements):
        try:
            match = Match(each.operator)
        except ValueError:
            raise ManifestError(
                f"{where}[{at}].operator: {each.operator!r}", f"known: {', '.join(Match)}"
            ) from None
        if match in (Match.IN, Match.NOT_IN) and not each.values:
            raise ManifestError(f"{where}[{at}].values: {match} of nothing", "name at least one value")
        found.append(Term(each.key, match, each.values))
    return tuple(found)


def selector(where: str, given: shapes.LabelSelector | None) -> Selector | None:
    """Return a selector of pods; None selects none, as in Kubernetes."""
    if given is None:
        return None
    by_label = Selector.of(given.match_labels).terms
    return Selector((*by_label, *terms(f"{where}.matchExpressions", given.match_expressions)))


def affinity(where: str, given: objects.NodeAffinity) -> tuple[Selector, ...]:
    """Return the selectors of nodes of which one must hold; a term that says nothing selects none."""
    if given.required is None:
        return ()
    place = f"{where}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    found = [_node(f"{place}[{at}]", term) for at, term in enumerate(given.required.node_selector_terms)]
    kept = tuple(each for each in found if each.terms or each.names)
    if not kept:
        raise ManifestError(f"{place}: no term selects anything", "name at least one label")
    return kept


def preferences(where: str, given: objects.NodeAffinity) -> tuple[Preference, ...]:
    """Return the selectors of nodes that would be liked."""
    place = f"{where}.preferredDuringSchedulingIgnoredDuringExecution"
    return tuple(
        Preference(each.weight, _node(f"{place}[{at}].preference", each.preference))
        for at, each in enumerate(given.preferred)
    )


def _node(where: str, term: objects.NodeSelectorTerm) -> Selector:
    return Selector(
        terms(f"{where}.matchExpressions", term.match_expressions),
        terms(f"{where}.matchFields", term.match_fields),
    )


def neighbours(where: str, given: shapes.PodAffinity) -> tuple[Neighbour, ...]:
    """Return musts and wishes about other pods."""
    required = f"{where}.requiredDuringSchedulingIgnoredDuringExecution"
    preferred = f"{where}.preferredDuringSchedulingIgnoredDuringExecution"
    musts = [_neighbour(f"{required}[{at}]", each, 0) for at, each in enumerate(given.required)]
    wishes = [
        _neighbour(f"{preferred}[{at}].podAffinityTerm", each.pod_affinity_term, each.weight)
        for at, each in enumerate(given.preferred)
    ]
    return tuple(each for each in (*musts, *wishes) if each is not None)


def _neighbour(where: str, term: shapes.PodTerm, weight: int) -> Neighbour | None:
    if not term.topology_key:
        raise ManifestError(f"{where}.topologyKey: it has none", "write topologyKey: kubernetes.io/hostname")
    who = selector(f"{where}.labelSelector", term.label_selector)
    if who is None:
        return None
    # A selector of namespaces would need their labels, which no file has: all of them are the safe reading.
    spaces = (_ANY,) if term.namespace_selector is not None else term.namespaces
    return Neighbour(who, term.topology_key, spaces, weight)


def spread(
    where: str, given: Iterable[shapes.SpreadConstraint], labels: Mapping[str, str]
) -> tuple[Spread, ...]:
    """Return how evenly pods must lie."""
    found = []
    for at, each in enumerate(given):
        place = f"{where}.topologySpreadConstraints[{at}]"
        if each.max_skew < 1:
            raise ManifestError(f"{place}.maxSkew: {each.max_skew}", "write 1 or more")
        if not each.topology_key:
            raise ManifestError(f"{place}.topologyKey: it has none", "name a label of nodes")
        own = {key: labels[key] for key in each.match_label_keys if key in labels}
        who = selector(f"{place}.labelSelector", each.label_selector) or Selector()
        whole = Selector((*who.terms, *Selector.of(own).terms))
        must = each.when_unsatisfiable != "ScheduleAnyway"
        found.append(Spread(whole, each.topology_key, each.max_skew, must, each.min_domains))
    return tuple(found)


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


def effect(where: str, text: str) -> Effect:
    """Return what a taint does."""
    try:
        return Effect(text)
    except ValueError:
        raise ManifestError(f"{where}.effect: {text!r}", f"known: {', '.join(Effect)}") from None


def ports(where: str, spec: shapes.PodSpec) -> tuple[Port, ...]:
    """Return the host's ports that a pod takes; in the host's network, all of its ports are the host's."""
    found = []
    for at, container in enumerate(spec.containers):
        for index, each in enumerate(container.ports):
            number = each.host_port or (each.container_port if spec.host_network else 0)
            if not 0 <= number <= 65535:
                place = f"{where}.containers[{at}].ports[{index}].hostPort"
                raise ManifestError(f"{place}: {number}", "a port is a number from 1 to 65535")
            if number:
                found.append(Port(number, each.protocol, each.host_ip))
    return tuple(found)
