"""Who gets a place now, and who never will; jobs are tried again when something could help them."""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from fairlead.placement import Decision, Placement
from fairlead.schedule.filter.hints import resource_fit_hint
from fairlead.simulate.play.world import PlacementPolicy, World
from fairlead.simulate.trace.job import Job


@dataclass(frozen=True, slots=True)
class AdmittedJob:
    """Places for every request of a job, and who must go for it."""

    placements: tuple[Placement, ...]
    victims: tuple[str, ...] = ()
    """Ids of requests; they are released already."""


class Admission:
    """Asks the policy, and remembers which kinds of job it has refused in the state that the world is in."""

    def __init__(self, world: World, pristine: World, chooser: PlacementPolicy, *, preemption: bool) -> None:
        self._world, self._pristine, self._chooser = world, pristine, chooser
        self._preemption = preemption
        self._kinds: dict[str, int | None] = {}
        self._numbers: dict[Hashable, int] = {}
        self._stuck: dict[int | None, tuple[Job, Decision]] = {}
        self._never: dict[int, Decision | None] = {}
        self.priorities: Counter[int] = Counter()
        """Of the jobs that have a place."""
        self.asked = 0

    def attempt(self, job: Job) -> AdmittedJob | Decision:
        """Place a job, or say why not; a kind of job that was just refused is not asked about again."""
        key = self.kind(job)
        if key in self._stuck:
            return self._stuck[key][1]
        answer = self._bind(self._world, job, evict=self._may_evict(job))
        if isinstance(answer, Decision) and key is not None and self._chooser.every is None:
            self._stuck[key] = (job, answer)
        return answer

    def never(self, job: Job) -> Decision | None:
        """Return the refusal of a job that would not fit even if nobody else were there."""
        key = self.kind(job)
        if key is None:  # it may need neighbours to come first
            return None
        if key not in self._never:
            world = self._pristine
            mark = world.cluster.checkpoint()
            answer = self._bind(world, job, evict=False)
            world.cluster.rollback(mark)
            self._never[key] = answer if isinstance(answer, Decision) else None
        return self._never[key]

    def kind(self, job: Job) -> int | None:
        """Return a number that jobs of one fate share; None: it depends on who else is there."""
        if job.name not in self._kinds:
            signature = job.requests[0].signature
            fate = (signature, len(job.requests))
            number = None if signature is None else self._numbers.setdefault(fate, len(self._numbers))
            self._kinds[job.name] = number
        return self._kinds[job.name]

    def is_stuck(self, kind: int | None) -> bool:
        """Say whether a kind of job was refused, and nothing that could help it has happened since."""
        return kind in self._stuck

    def freed(self, nodes: Iterable[str]) -> None:
        """Forget refusals that may no longer be true, now that there is more room on these nodes."""
        free = [self._world.cluster.free(name) for name in nodes if self._world.cluster.node(name)]
        for key, (job, _) in tuple(self._stuck.items()):
            by_amount = len(job.requests) == 1 and not self._may_evict(job)
            if not by_amount or any(resource_fit_hint(job.requests[0], each) for each in free):
                del self._stuck[key]

    def _may_evict(self, job: Job) -> bool:
        lowest = min(self.priorities, default=job.priority)
        return self._preemption and job.requests[0].preempts and lowest < job.priority

    def _bind(self, world: World, job: Job, *, evict: bool) -> AdmittedJob | Decision:
        """Bind every request of a job, or none."""
        mark = world.cluster.checkpoint()
        placements: list[Placement] = []
        victims: list[str] = []
        for request in job.requests:
            self.asked += 1
            decision = self._chooser.choose(world, request, evict)
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
