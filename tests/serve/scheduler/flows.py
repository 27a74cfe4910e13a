"""Run flows without a driver: step by step, against the model of the API server or against a script."""

from collections import deque
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from fairlead.cache.types import CLAIMS, PODS
from fairlead.cluster.http import codec
from fairlead.errors import ClusterError, ClusterUnavailableError
from fairlead.serve.machine.flow import Answered, Effect, Flow, Flows, Sleep
from fairlead.serve.machine.requests import ApiRequest
from fairlead.serve.scheduler.effects import ListObjects
from fairlead.serve.scheduler.performer import Performer, SchedulerClient
from tests.serve.scheduler.model import Api

T = TypeVar("T")
Perform = Callable[[Effect], Any]
"""Performs an effect: returns its answer, or raises its error."""
Fate = Literal["lost", "late"] | ClusterError | None
"""What happens to a request: `lost` takes effect and is not answered, `late` takes effect later."""


def run(flow: Flow[T], perform: Perform, flows: Flows | None = None) -> T:
    """Run a flow to its end and return its result; effects are performed one by one, in their order."""
    flows = flows or Flows()
    results: list[T] = []
    errors: list[ClusterError] = []

    def watched() -> Flow[None]:
        try:
            results.append((yield from flow))
        except ClusterError as error:
            errors.append(error)

    flows.start(watched())
    effects = deque(flows.take())
    while effects:
        flows.resume(_answered(effects.popleft(), perform))
        effects += flows.take()
    if errors:
        raise errors[0]
    (result,) = results  # none: the flow waits for a lock that no flow releases
    return result


def _answered(effect: Effect, perform: Perform) -> Answered:
    try:
        return Answered(effect.id, perform(effect))
    except ClusterError as error:
        return Answered(effect.id, error=error)


def lost() -> ClusterUnavailableError:
    """Return the error of a request that may have taken effect."""
    error = ClusterUnavailableError("the connection broke")
    error.maybe_done = True
    return error


class Wire:
    """The connection to a model of the API server; the test decides what happens to each request."""

    def __init__(self, fate: Callable[[str, str], Fate] = lambda method, path: None) -> None:
        self.api = Api()
        self.requests: list[tuple[str, str]] = []
        """Methods and paths, in the order in which they were sent."""
        self.slept: list[float] = []
        """Seconds for which flows waited: no time passes."""
        self._fate = fate
        self._late: list[ApiRequest] = []

    def perform(self, effect: Effect) -> Any:
        """Perform an effect as a driver would."""
        if isinstance(effect, Sleep):
            self.slept.append(effect.seconds)
            return None
        if isinstance(effect, ListObjects):
            return tuple(self.api.list_objects(PODS if effect.plural == PODS.plural else CLAIMS))
        assert isinstance(effect, ApiRequest), effect
        return self._send(effect)

    def arrive(self) -> list[str]:
        """Let late requests arrive, and return their outcomes."""
        outcomes = []
        for request in self._late:
            try:
                outcomes.append(str(self._carry_out(request)))
            except ClusterError as error:
                outcomes.append(type(error).__name__)
        return outcomes

    def _send(self, request: ApiRequest) -> bytes:
        short = request.path.rpartition("/namespaces/default/")[2]
        self.requests.append((request.method, short))
        fate = self._fate(request.method, short)
        if isinstance(fate, ClusterError):
            raise fate
        if fate == "late":
            self._late.append(request)
            raise lost()
        answer = self._carry_out(request)
        if fate == "lost":
            raise lost()
        return answer

    def _carry_out(self, request: ApiRequest) -> bytes:
        body = codec.encode_plain(request.body) if request.body else None
        return self.api.request(request.method, request.path, body, request.content_type)


async def run_on_server(client: SchedulerClient, flow: Flow[T]) -> T:
    """Run a flow against a real API server; return its result."""
    flows, performer, results = Flows(), Performer(client, in_flight=4), list[T]()

    def watched() -> Flow[None]:
        results.append((yield from flow))

    flows.start(watched())
    while effects := flows.take():
        for effect in effects:
            assert not isinstance(effect, Sleep), "the API server answers"
            try:
                flows.resume(Answered(effect.id, await performer.perform(effect)))
            except ClusterError as error:
                flows.resume(Answered(effect.id, error=error))
    (result,) = results
    return result
