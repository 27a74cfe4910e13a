"""CutProblem: nodes, links and stages with their costs; CutPlan: the node of each stage. Values only."""

from dataclasses import dataclass
from itertools import groupby
from typing import Final

SAME: Final = 1e-9
"""Times that differ by this part of them are equal. A sum of a hundred doubles depends on
the order of its terms by about 1e-14 of it, so no plan is refused or preferred for a rounding error; and no
time is measured to a billionth, so no real difference is lost."""
SOURCE: Final = -1
"""The place of the source among the stages of an edge."""


def within(value: float, limit: float) -> bool:
    """Return whether a time keeps a limit, which is inclusive."""
    return value <= limit * (1 + SAME)


@dataclass(frozen=True, slots=True)
class CutNode:
    """A place for stages; it works on one frame at a time."""

    name: str
    memory_bytes: float
    slowness: float = 1.0
    """How many times as long as on the fastest node its end of a hop takes."""


@dataclass(frozen=True, slots=True)
class CutLink:
    """A link in one direction; it carries one frame at a time."""

    source: str
    target: str
    bytes_per_s: float
    delay_s: float

    @property
    def name(self) -> str:
        """The link as people write it, also as a bottleneck: `edge->server`."""
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class CutStage:
    """A stage, and the seconds that one frame takes on each node that can run it."""

    name: str
    memory_bytes: float
    input_bytes: float
    """Of a chain: the bytes of the one edge into it. The edges of a graph have their own."""
    seconds: dict[str, float]


@dataclass(frozen=True, slots=True)
class CutEdge:
    """Frames from one stage, or the source, to a later one."""

    before: int
    """The number of the stage that sends, or `SOURCE`."""
    behind: int
    bytes: float


@dataclass(frozen=True, slots=True)
class CutSink:
    """Where the results of a chain go, as one more transfer unless the last stage is there."""

    name: str
    node: str
    bytes: float


@dataclass(frozen=True, slots=True)
class CutProblem:
    """What a plan is made from."""

    source: str
    """The node that frames come from; it may run stages."""
    nodes: tuple[CutNode, ...]
    links: tuple[CutLink, ...]
    stages: tuple[CutStage, ...]
    max_latency_s: float | None = None
    """Inclusive; a latency that exceeds it by a rounding error (`SAME`) keeps it."""
    edges: tuple[CutEdge, ...] | None = None
    """None: a chain. Otherwise a graph; an edge goes to a stage behind the one that it comes from."""
    hop_s: float = 0.0
    """Seconds that a hop keeps its two nodes busy, half of it each, by their slowness. 0: transfers alone."""
    sink: CutSink | None = None
    """Of a chain: where its results go. None: they stay at the node of the last stage."""

    @property
    def all_edges(self) -> tuple[CutEdge, ...]:
        """The edges; those of a chain lead from each stage to the next."""
        if self.edges is not None:
            return self.edges
        return tuple(CutEdge(index - 1, index, stage.input_bytes) for index, stage in enumerate(self.stages))

    def end_seconds(self) -> dict[str, float]:
        """Return the seconds that one end of a hop keeps each node busy."""
        return {node.name: self.hop_s / 2 * node.slowness for node in self.nodes}

    def links_by_ends(self) -> dict[tuple[str, str], CutLink]:
        """Return each link under its two nodes."""
        return {(link.source, link.target): link for link in self.links}


@dataclass(frozen=True, slots=True)
class CutLoad:
    """What one node does for each frame."""

    node: str
    stages: tuple[str, ...]
    busy_s: float
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class CutHop:
    """One frame on its way over a link, into a stage."""

    link: CutLink
    stage: str
    bytes: float
    transfer_s: float


@dataclass(frozen=True, slots=True)
class CutPlan:
    """The node of each stage, and what follows from it."""

    assignment: tuple[str, ...]
    period_s: float
    """The longest that a node or a link is busy with one frame."""
    latency_s: float
    bottleneck: str
    """What is busy that long: the name of a node, or of a link (`edge->server`)."""
    loads: tuple[CutLoad, ...]
    hops: tuple[CutHop, ...]
    gap: float = 0.0
    """How far the period may be above the smallest one, as a part of it; 0: it is the smallest."""

    @property
    def compute_s(self) -> float:
        """Seconds that nodes work on one frame."""
        return sum(load.busy_s for load in self.loads)

    @property
    def communication_s(self) -> float:
        """Seconds that one frame spends on links, delays included."""
        return sum(hop.transfer_s + hop.link.delay_s for hop in self.hops)

    @property
    def ratio(self) -> float | None:
        """Communication by computation; None where no time is computed."""
        return self.communication_s / self.compute_s if self.compute_s > 0 else None


@dataclass(frozen=True, slots=True)
class CutRefusal:
    """Why no plan fits, and what would help."""

    reason: str
    hint: str = ""


def describe_runs(problem: CutProblem, assignment: tuple[str, ...]) -> str:
    """Return an assignment in one line: `edge: decode, scale | server: detect`."""
    pairs = zip(assignment, problem.stages, strict=True)
    groups = groupby(pairs, key=lambda pair: pair[0])
    return " | ".join(f"{node}: {', '.join(stage.name for _, stage in run)}" for node, run in groups)
