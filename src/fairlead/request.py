"""A request for a place: how much of which accelerators, and the rules about nodes and other pods."""

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Final

from fairlead.compat import StrEnum
from fairlead.need import Need, need_problems
from fairlead.units import Bytes

NO_BYTES: Final = Bytes(0)
WHOLE: Final = 1000
"""The compute of one accelerator, in thousandths."""
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")
"""What Kubernetes accepts as a number; Python also accepts `1_000` and digits of other scripts."""


class MatchOperator(StrEnum):
    """The operator of a label requirement, as Kubernetes spells it."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class LabelTerm:
    """One requirement on a label."""

    key: str
    match: MatchOperator = MatchOperator.EXISTS
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels satisfy the term."""
        return self.holds_for(labels.get(self.key))

    def holds_for(self, value: str | None) -> bool:
        """Return whether this value satisfies the term; None: the label is absent."""
        if self.match is MatchOperator.DOES_NOT_EXIST:
            return value is None
        if self.match is MatchOperator.NOT_IN:
            return value is None or value not in self.values
        if value is None:
            return False
        if self.match is MatchOperator.EXISTS:
            return True
        if self.match is MatchOperator.IN:
            return value in self.values
        return _compare(value, self.match, self.values)

    def __str__(self) -> str:
        if self.match in (MatchOperator.EXISTS, MatchOperator.DOES_NOT_EXIST):
            return f"{self.key} {self.match}"
        if self.match is MatchOperator.IN and len(self.values) == 1:
            return f"{self.key}={self.values[0]}"
        return f"{self.key} {self.match} {'|'.join(self.values)}"


def _compare(value: str, match: MatchOperator, bounds: tuple[str, ...]) -> bool:
    if len(bounds) != 1 or not _WHOLE_NUMBER.fullmatch(value) or not _WHOLE_NUMBER.fullmatch(bounds[0]):
        return False
    return int(value) > int(bounds[0]) if match is MatchOperator.GREATER else int(value) < int(bounds[0])


@dataclass(frozen=True, slots=True)
class Selector:
    """Terms that must all hold; a selector without terms selects everything."""

    terms: tuple[LabelTerm, ...] = ()
    names: tuple[LabelTerm, ...] = ()
    """Terms on the node's own name, as in `matchFields`."""

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels satisfy every term."""
        return all(term.holds(labels) for term in self.terms)

    def __str__(self) -> str:
        if self == NOTHING:
            return "nothing"
        return ", ".join(str(term) for term in (*self.terms, *self.names)) or "anything"

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> "Selector":
        """Select by plain equality, as `nodeSelector` and `matchLabels` do."""
        return cls(tuple(LabelTerm(key, MatchOperator.IN, (value,)) for key, value in sorted(labels.items())))


NOTHING: Final = Selector((LabelTerm("", MatchOperator.IN),))
"""What an absent selector selects in Kubernetes; an empty one selects everything."""


@dataclass(frozen=True, slots=True)
class PreferredNodes:
    """A preferred selector of nodes and its weight, 1 to 100."""

    weight: int
    selector: Selector


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node: it keeps pods away that do not tolerate it."""

    key: str
    value: str = ""
    effect: TaintEffect = TaintEffect.NO_SCHEDULE

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A taint that the pod tolerates; an empty key with `exists` means every taint."""

    key: str = ""
    value: str = ""
    exists: bool = False
    effect: TaintEffect | None = None
    """None: every effect."""

    def covers(self, taint: Taint) -> bool:
        """Return whether this toleration covers the taint."""
        if self.effect not in (None, taint.effect):
            return False
        if self.exists:
            return self.key in ("", taint.key)
        return (self.key, self.value) == (taint.key, taint.value)


def repels(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Return whether a taint keeps a pod with these tolerations away."""
    return taint.effect is not TaintEffect.PREFER_NO_SCHEDULE and not any(
        toleration.covers(taint) for toleration in tolerations
    )


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """Pods that a pod wants, or does not want, in its topology domain (a node, a zone, ...)."""

    selector: Selector
    topology: str = "kubernetes.io/hostname"
    namespaces: tuple[str, ...] = ()
    """Empty: the namespace of the pod that has the term; `*`: every namespace."""
    weight: int = 0
    """0: required; 1 to 100: preferred with this weight."""


@dataclass(frozen=True, slots=True)
class TopologySpread:
    """How evenly the selected pods must be distributed over the domains of a label."""

    selector: Selector
    topology: str
    skew: int = 1
    """The most by which the count of a domain may exceed the smallest count (`maxSkew`)."""
    must: bool = True
    """False: preferred only (`ScheduleAnyway`)."""
    domains: int = 0
    """With fewer domains than this, the smallest count is taken as 0 (`minDomains`)."""
    allowed: bool = True
    """Count only nodes that the pod's own selector and affinity allow (`nodeAffinityPolicy`)."""
    tolerated: bool = False
    """Count only nodes whose taints the pod tolerates (`nodeTaintsPolicy`)."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the host that a pod reserves."""

    number: int
    protocol: str = "TCP"
    address: str = ""
    """Empty or `0.0.0.0`: on every address."""

    def clashes(self, other: "HostPort") -> bool:
        """Return whether two pods with these ports cannot run on one host."""
        if (self.number, self.protocol) != (other.number, other.protocol):
            return False
        anywhere = {"", "0.0.0.0"}  # noqa: S104  # compared, never bound
        return self.address == other.address or bool(anywhere & {self.address, other.address})


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that are placed together or not at all."""

    name: str
    size: int
    """The least number of members that must be placed; more may follow."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What an estimate says about this request on one model of accelerator."""

    seconds: float | None = None
    """The latency that nine of ten runs keep; None: unknown."""
    joules: float | None = None
    memory: Bytes | None = None
    """The memory that the request takes there; used where the request itself names no size."""
    reason: str = ""
    """Why the request does not run there; empty: it runs."""
    unknown: str = ""
    """Why its latency there is not known, where that is known; the accelerator stays a candidate."""
    scope: str = ""
    """What the latency is of, where that is less than it seems."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a request asks of accelerators: `count` of them, whole or a share of each.

    Without `memory` and `compute` the request takes whole accelerators and shares them with no other pod. If
    estimates name the memory, it takes a share of that size instead.
    """

    count: int = 0
    memory: Bytes | None = None
    """Of each accelerator."""
    compute: int | None = None
    """Of each accelerator, in thousandths; 1000 takes all of its compute."""
    models: tuple[str, ...] = ()
    """Any of these, by catalog id; empty: any."""
    excluded: tuple[str, ...] = ()
    """None of these models."""
    vendors: tuple[str, ...] = ()
    precision: str = ""
    """The precision that the accelerator must support, such as `fp16`; empty: any."""
    selectors: tuple[str, ...] = ()
    """Device selectors of the claims in CEL, that of the class first: each must hold."""


@dataclass(frozen=True)
class Request:
    """One pod, or one job of one machine, that asks for a place."""

    name: str
    namespace: str = "default"
    uid: str = ""
    """Empty: namespace and name identify the request."""
    cpu: int = 0
    """Thousandths of a core."""
    memory: Bytes = NO_BYTES
    """Of the node, in addition to what the request takes of accelerators."""
    resources: tuple[tuple[str, int], ...] = ()
    """Other extended resources of the node, by name."""
    demand: Demand = Demand()
    labels: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    preempts: bool = True
    """Whether it may preempt pods of lower priority."""
    gang: Gang | None = None
    selector: Selector = Selector()
    """Of nodes: every term must hold."""
    affinity: tuple[Selector, ...] = ()
    """Of nodes: one of these must hold; empty: any node."""
    preferences: tuple[PreferredNodes, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    pod_affinity: tuple[PodAffinityTerm, ...] = ()
    pod_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    topology_spread: tuple[TopologySpread, ...] = ()
    ports: tuple[HostPort, ...] = ()
    slo: float | None = None
    """The latency in seconds that nine of ten runs must keep."""
    estimates: Mapping[str, Expectation] = field(default_factory=dict)
    """By model of accelerator; for a model that is absent it is unknown whether the request runs there."""
    need: Need | None = None
    """The memory that it is expected to hold of each accelerator that it shares; None: what it asks for."""
    busy: float | None = None
    """The part of an accelerator's time, 0 to 1, that it is expected to keep busy; None: unknown."""
    correlated: tuple[tuple[str, str], ...] = ()
    """Node and id of accelerators that it may not take: their measured use correlates with its own."""

    @cached_property
    def id(self) -> str:
        """What identifies the request in a cluster."""
        return self.uid or f"{self.namespace}/{self.name}"

    @cached_property
    def shape(self) -> Hashable:
        """Everything that decides where the request fits on its own; the engine scores one shape once."""
        demand, rules = self.demand, (self.selector, self.affinity, self.preferences, self.tolerations)
        # Flat, and without rules where there are none: every decision hashes it.
        return (
            self.cpu,
            self.memory,
            self.resources,
            demand.count,
            demand.memory,
            demand.compute,
            demand.models,
            demand.excluded,
            demand.vendors,
            demand.selectors,
            demand.precision,
            self.slo,
            rules if rules != NO_RULES else None,
            tuple(sorted(self.estimates.items(), key=itemgetter(0))) if self.estimates else None,
            (self.need, self.busy, self.correlated) if self.need or self.busy or self.correlated else None,
        )

    @property
    def inter_pod(self) -> bool:
        """Whether the place depends on other pods: affinity, anti-affinity, topology spread or host ports."""
        return bool(self.pod_affinity or self.pod_anti_affinity or self.topology_spread or self.ports)

    @property
    def signature(self) -> Hashable:
        """Requests with equal signatures get equal answers in one state; None: other pods decide too."""
        return None if self.inter_pod else (self.shape, self.priority, self.preempts)

    @property
    def sized_by_estimate(self) -> bool:
        """Whether the estimates decide how much of an accelerator the request takes."""
        if not self.estimates or self.demand.memory is not None or self.demand.compute is not None:
            return False
        return self.demand.count > 0 and any(
            estimate.memory is not None for estimate in self.estimates.values()
        )

    @property
    def whole(self) -> bool:
        """Whether the request takes accelerators exclusively."""
        bare = self.demand.memory is None and self.demand.compute is None
        return self.demand.count > 0 and bare and not self.sized_by_estimate


NO_RULES: Final = (Selector(), (), (), ())


def problems(request: Request) -> tuple[str, ...]:
    """Return why a request is invalid, each text naming its field; empty: the request is valid."""
    if _plain(request):
        return ()
    demand = request.demand
    amounts: Iterable[tuple[str, object, float]] = (
        ("cpu", request.cpu, 0),
        ("memory", request.memory, 0),
        ("demand.count", demand.count, 0),
        ("demand.memory", demand.memory, 1),
        ("demand.compute", demand.compute, 1),
        *((f"resources[{name}]", amount, 0) for name, amount in request.resources),
        *((f"gang.size of {gang.name}", gang.size, 1) for gang in (request.gang,) if gang),
    )
    texts = [text for name, value, least in amounts if (text := _amount(name, value, least))]
    if demand.compute is not None and not texts and demand.compute > WHOLE:
        texts.append(f"demand.compute: {demand.compute} is more than one accelerator's {WHOLE}")
    if demand.count == 0 and (demand.memory or demand.compute):
        texts.append("demand.count: 0, though a share is asked for: ask for at least 1")
    if request.slo is not None and not (isinstance(request.slo, int | float) and 0 < request.slo < 1e9):
        texts.append(f"slo: {request.slo} is not a positive number of seconds")
    texts += [f"estimates[{name}]: {text}" for name, text in _estimates(request)]
    texts += [f"need: {text}" for text in need_problems(request.need)] if request.need else []
    return tuple(texts)


def _plain(request: Request) -> bool:
    """Return whether a request is of the most common sort and valid: a fast path of every decision."""
    demand = request.demand
    amounts = (request.cpu, request.memory, demand.count, demand.memory or 1, demand.compute or 1)
    rare = request.gang or request.resources or request.estimates or request.slo is not None or request.need
    if rare or any(type(amount) is not int for amount in amounts) or 0 in (demand.memory, demand.compute):
        return False
    return demand.count > 0 and min(amounts) >= 0 and max(amounts) < 1 << 62 and amounts[-1] <= WHOLE


def _amount(name: str, value: object, least: float) -> str:
    if value is None:
        return ""
    if not isinstance(value, int) or isinstance(value, bool):
        return f"{name}: {value!r} is not a whole number"
    if value < least:
        return f"{name}: {value} is less than {least:.0f}"
    return f"{name}: {value} is more than anything can have" if value >= 2**62 else ""


def _estimates(request: Request) -> Iterable[tuple[str, str]]:
    for model, estimate in request.estimates.items():
        amounts = {"seconds": estimate.seconds, "joules": estimate.joules, "memory": estimate.memory}
        for name, value in amounts.items():
            if value is not None and not 0 <= value < 2**62:
                yield model, f"{name}: {value} is not a valid amount"
