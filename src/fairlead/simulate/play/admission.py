"""Admission: which jobs get a place now, and which never fit; events that could help trigger a retry."""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from fairlead.placement import Decision, Placement
from fairlead.schedule.filter.hints import resource_fit_hint
from fairlead.simulate.play.world import PlacementPolicy, World
from fairlead.simulate.trace.job import Job


@dataclass(frozen=True, slots=True)
class AdmittedJob:
    """Placements for every request of a job, and the victims of its preemption."""

    placements: tuple[Placement, ...]
    victims: tuple[str, ...] = ()
    """Ids of requests; the cluster has already released them."""


class Admission:
    """Asks the policy, and remembers which kinds of job do not fit in the current state of the world."""

    def __init__(self, world: World, pristine: World, policy: PlacementPolicy, *, preemption: bool) -> None:
        self._world, self._pristine, self._policy = world, pristine, policy
        self._preemption = preemption
        self._kinds: dict[str, int | None] = {}
        self._numbers: dict[Hashable, int] = {}
        self._refused: dict[int | None, tuple[Job, Decision]] = {}
        self._never_fit: dict[int, Decision | None] = {}
        self.priorities: Counter[int] = Counter()
        """The priorities of the jobs that have a place."""
        self.decisions = 0

    def admit(self, job: Job) -> AdmittedJob | Decision:
        """Place a job, or return why it does not fit; a kind that was just refused is not tried again."""
        key = self.kind(job)
        if key in self._refused:
            return self._refused[key][1]
        answer = self._bind(self._world, job, evict=self._may_evict(job))
        if isinstance(answer, Decision) and key is not None and self._policy.every is None:
            self._refused[key] = (job, answer)
        return answer

    def never_fits(self, job: Job) -> Decision | None:
        """Return the refusal of a job that would not fit even on empty machines."""
        key = self.kind(job)
        if key is None:  # its pod affinity may need other pods to be placed first
            return None
        if key not in self._never_fit:
            world = self._pristine
            mark = world.cluster.checkpoint()
            answer = self._bind(world, job, evict=False)
            world.cluster.rollback(mark)
            self._never_fit[key] = answer if isinstance(answer, Decision) else None
        return self._never_fit[key]

    def kind(self, job: Job) -> int | None:
        """Return a number that jobs share if they fit or do not fit alike; None: other pods decide too."""
        if job.name not in self._kinds:
            signature = job.requests[0].signature
            key = (signature, len(job.requests))
            number = None if signature is None else self._numbers.setdefault(key, len(self._numbers))
            self._kinds[job.name] = number
        return self._kinds[job.name]

    def is_refused(self, kind: int | None) -> bool:
        """Return whether a kind of job was refused, and no event since then could help it."""
        return kind in self._refused

    def freed(self, nodes: Iterable[str]) -> None:
        """Drop refusals that may no longer hold, because these nodes have more free capacity."""
        free = [self._world.cluster.free(name) for name in nodes if self._world.cluster.node(name)]
        for key, (job, _) in tuple(self._refused.items()):
            by_amount = len(job.requests) == 1 and not self._may_evict(job)
            if not by_amount or any(resource_fit_hint(job.requests[0], node) for node in free):
                del self._refused[key]

    def _may_evict(self, job: Job) -> bool:
        lowest = min(self.priorities, default=job.priority)
        return self._preemption and job.requests[0].preempts and lowest < job.priority

    def _bind(self, world: World, job: Job, *, evict: bool) -> AdmittedJob | Decision:
        """Bind every request of a job, or none."""
        mark = world.cluster.checkpoint()
        placements: list[Placement] = []
        victims: list[str] = []
        for request in job.requests:
            self.decisions += 1
            decision = self._policy.choose(world, request, evict)
            if decision.placement is None:
                world.cluster.rollback(mark)
                return decision
            for victim in decision.victims:
                world.cluster.release(victim)
            world.cluster.bind(decision.placement)
            placements.append(decision.placement)
            victims += decision.victims
        world.cluster.commit(mark)
        return AdmittedJob(tuple(placements), tuple(victims))
