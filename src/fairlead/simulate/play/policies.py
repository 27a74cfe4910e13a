"""The policy of a name in a simulation: by requests, by a published rule, or by learned needs."""

from collections.abc import Iterable

from fairlead.schedule import policy_named
from fairlead.simulate.play.published import PublishedPolicy
from fairlead.simulate.play.safe import SafePolicy, images_of
from fairlead.simulate.play.world import PlacementPolicy, RequestPolicy
from fairlead.simulate.trace.job import Job
from fairlead.sizing.footprint import FootprintBook


def simulated_policy(name: str, jobs: Iterable[Job]) -> PlacementPolicy:
    """Return a policy that plays these jobs; one that learns knows what the trace states of their sizes."""
    policy = policy_named(name)
    if policy.needs:
        listed = tuple(jobs)
        return SafePolicy(images_of(listed), stated_sizes(listed), name=name)
    if policy.measured:
        return PublishedPolicy(name)
    return RequestPolicy(name)


def stated_sizes(jobs: Iterable[Job]) -> FootprintBook:
    """Return a book with the sizes of elastic jobs, which a trace states; others are learned."""
    book = FootprintBook()
    for job in jobs:
        if job.least is not None:
            book.state(
                job.image or job.name,
                least=job.least,
                full=max((step.memory for step in job.memory), default=job.least),
                now=0.0,
            )
    return book
