"""Pipelines in Python: stages as functions, chains by `>>`."""

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fairlead.errors import PipelineError
from fairlead.pipeline.check import require_sound
from fairlead.pipeline.driver import PipelineDriver
from fairlead.pipeline.edge import EdgeContract
from fairlead.pipeline.fuse import plan_workers
from fairlead.pipeline.keys.batch import read_batch
from fairlead.pipeline.keys.replicas import read_replicas
from fairlead.pipeline.load import ATTRIBUTE, DeclaredPorts
from fairlead.pipeline.observe.runs import RunPublisher
from fairlead.pipeline.ports import ANY, PortType
from fairlead.pipeline.spec import EdgeSpec, OnError, PipelineSpec, StageRole, StageSpec
from fairlead.pipeline.state.folder import open_state
from fairlead.units import Seconds, parse_duration

F = TypeVar("F", bound=Callable[..., Any])


def stage(inputs: PortType = ANY, outputs: PortType = ANY) -> Callable[[F], F]:
    """Declare the types of the values that a function, a generator or a class takes and makes."""

    def declare(function: F) -> F:
        setattr(function, ATTRIBUTE, DeclaredPorts(inputs, outputs))
        return function

    return declare


@dataclass(frozen=True, slots=True)
class Chain:
    """Stages and edges that belong together; `>>` puts two chains in a row."""

    stages: tuple[StageSpec, ...]
    edges: tuple[EdgeSpec, ...] = ()

    def __rshift__(self, other: "Chain | Callable[..., Any]") -> "Chain":
        after = other if isinstance(other, Chain) else call(other)
        edge = EdgeSpec(self.stages[-1].name, after.stages[0].name, EdgeContract())
        return Chain(self.stages + after.stages, (*self.edges, edge, *after.edges))


def source(name: str, kind: str, **options: Any) -> Chain:
    """Return a source of the table as the start of a chain."""
    return Chain((StageSpec(name, StageRole.SOURCE, kind, options),))


def sink(name: str, kind: str, **options: Any) -> Chain:
    """Return a sink of the table as the end of a chain."""
    return Chain((StageSpec(name, StageRole.SINK, kind, options),))


def call(function: Callable[..., Any], name: str = "", **settings: Any) -> Chain:
    """Return a stage that calls a function; `settings` are fields of `StageSpec`, such as `batch="auto"`."""
    return _stage(StageSpec(name or function.__name__, StageRole.RUN, target_of(function)), settings)


def program(name: str, *command: str, options: Mapping[str, Any] | None = None, **settings: Any) -> Chain:
    """Return a stage that is a program with its arguments; `settings` as for `call`."""
    return _stage(StageSpec(name, StageRole.EXEC, command[0], options or {}, command=command), settings)


def model(name: str, path: str, options: Mapping[str, Any] | None = None, **settings: Any) -> Chain:
    """Return a stage that is an ONNX model; `settings` as for `call`."""
    return _stage(StageSpec(name, StageRole.RUN, path, options or {}), settings)


def _stage(made: StageSpec, settings: dict[str, Any]) -> Chain:
    """Return a stage with settings; `on_error`, `batch` and `replicas` may be as files write them."""
    policy = OnError(settings.pop("on_error", made.on_error))
    batch = settings.pop("batch", None)

    def refusal(text: str, hint: str) -> PipelineError:
        return PipelineError(f"stage {made.name}: {text}", hint)

    if batch is not None:
        batch = read_batch(batch, refusal)
    replicas, scale = read_replicas(settings.pop("replicas", 1), refusal)
    return Chain((replace(made, on_error=policy, batch=batch, replicas=replicas, scale=scale, **settings),))


def target_of(function: Callable[..., Any]) -> str:
    """Return the name by which a worker imports a function; ValueError for one that no name leads to."""
    name = function.__qualname__
    if "<" in name:
        raise ValueError(f"{name} is defined in a function: move it to the top level of its module")
    if function.__module__ != "__main__":
        return f"{function.__module__}:{name}"
    return f"{os.path.abspath(inspect.getsourcefile(function) or sys.argv[0])}:{name}"


def _log(line: str) -> None:
    sys.stderr.write(f"{line}\n")


class Pipeline:
    """Chains that become one pipeline; `connect` adds edges, and sets what an edge does under load."""

    def __init__(self, name: str, *chains: Chain, fuse: bool = True) -> None:
        self.name = name
        self.chains = chains
        self.fuse = fuse
        self._edges = {(edge.source, edge.target): edge.contract for each in chains for edge in each.edges}

    def connect(
        self, start: str, end: str, policy: str = "block", depth: int = 8, max_age: str = ""
    ) -> "Pipeline":
        """Join two stages by name, or change the edge between them; `max_age` is a time such as 200ms."""
        age: Seconds | None = parse_duration(max_age) if max_age else None
        self._edges[start, end] = EdgeContract.parse(policy, depth, age)
        return self

    def spec(self) -> PipelineSpec:
        """Return the pipeline as data; a stage that several chains share counts once."""
        unique = tuple({each.name: each for chain in self.chains for each in chain.stages}.values())
        edges = tuple(EdgeSpec(a, b, contract) for (a, b), contract in self._edges.items())
        return PipelineSpec(self.name, unique, edges, self.fuse)

    def run(self, state: str = "", *, resume: bool = False) -> dict[str, Any]:
        """Check and run the pipeline, return its counters; PipelineError, PipelineFailedError.

        `state` is a folder that keeps the progress of the run; `resume` goes on with it. The counters of a
        run that was done already are empty.
        """
        if resume and not state:
            raise ValueError("resume needs state: the folder that holds the progress of the run")
        plan = plan_workers(require_sound(self.spec()))
        with ExitStack() as stack:
            folder = None
            if state:
                folder = stack.enter_context(open_state(state, plan.spec, resume=resume, log=_log))
                if folder.is_done:
                    return {}
            publisher = stack.enter_context(RunPublisher(os.environ))
            return PipelineDriver(plan, _log, publisher.update, state=folder).run()
