"""Run a flow of the scheduler against a real API server."""

import asyncio
from typing import Any, TypeVar

from fairlead.errors import ClusterError
from fairlead.serve.machine.flow import Answered, Effect, Flow, Flows, Sleep
from fairlead.serve.scheduler.performer import ApiClient, Performer

T = TypeVar("T")


async def performed(client: ApiClient, flow: Flow[T]) -> T:
    """Perform the effects of a flow, one after the other, and return its result."""
    flows, performer, results = Flows(), Performer(client, 8), []

    def kept() -> Flow[None]:
        results.append((yield from flow))

    flows.start(kept())
    left: list[Effect] = flows.take()
    while left:
        effect = left.pop(0)
        flows.resume(await _answered(performer, effect))
        left += flows.take()
    (result,) = results
    return result


async def _answered(performer: Performer, effect: Effect) -> Answered:
    if isinstance(effect, Sleep):
        await asyncio.sleep(effect.seconds)
        return Answered(effect.id)
    try:
        answer: Any = await performer.perform(effect)
    except ClusterError as error:
        return Answered(effect.id, error=error)
    return Answered(effect.id, answer)
