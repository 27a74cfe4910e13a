"""Procedures of a state machine that wait for the outcomes of their effects. Pure.

    def bind(pod):                             handle(Cycle)      -> [Allocate(id=1)]
        claim = yield Allocate(...)            handle(Answered 1) -> [Bind(id=2)]
        yield Bind(...)                        handle(Answered 2) -> []

A flow is a generator. What it yields leaves the machine as an effect with an id. The event that answers this
id resumes the flow: the outcome is the value of the `yield`, an error is raised there. So a procedure reads
from top to bottom, and the machine needs neither threads nor a clock.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from fairlead.errors import ClusterError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """An action that the driver performs for the machine."""

    id: int = 0
    """The id that the answering event names; the machine numbers its effects."""


@dataclass(frozen=True, slots=True)
class Sleep(Effect):
    """Wait for some seconds, then answer."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Log(Effect):
    """Write a line for the people who run the program; no event answers it."""

    line: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The outcome of an effect."""

    id: int
    answer: Any = None
    error: ClusterError | None = None


@dataclass(frozen=True, slots=True)
class Together:
    """Runs flows at the same time; the answer is the list of their results."""

    flows: tuple["Flow[Any]", ...]


@dataclass(slots=True, eq=False)
class Lock:
    """Held by one flow at a time; the others wait in order of arrival."""

    held: bool = False
    waiting: deque["_Running"] = field(default_factory=deque)


Flow = Generator[Effect | Together | Lock, Any, T]


@dataclass(slots=True, eq=False)
class _Running:
    """A running flow, and the callback at its end."""

    flow: Flow[Any]
    ended: Callable[[Any, ClusterError | None], None]


class Flows:
    """All flows of a machine."""

    def __init__(self) -> None:
        self._waiting: dict[int, _Running] = {}
        """By the id of the effect that the flow waits for."""
        self._effects: list[Effect] = []
        self._last_id = 0

    def start(self, flow: Flow[None], ended: Callable[[], None] = lambda: None) -> None:
        """Run a flow until it waits for an answer; an error that it does not catch ends the machine."""

        def over(_: Any, error: ClusterError | None) -> None:
            if error is not None:
                raise error
            ended()

        self._advance(_Running(flow, over))

    def resume(self, event: Answered) -> None:
        """Resume the flow that waits for an answer."""
        running = self._waiting.pop(event.id, None)
        if running is not None:
            self._advance(running, event.answer, event.error)

    def emit(self, effect: Effect) -> None:
        """Add an effect whose outcome no flow waits for."""
        self._effects.append(effect)

    def take(self) -> list[Effect]:
        """Return and clear the effects of the handled event."""
        effects, self._effects = self._effects, []
        return effects

    def release(self, lock: Lock) -> None:
        """Pass a lock to the flow that has waited longest."""
        lock.held = bool(lock.waiting)
        if lock.waiting:
            self._advance(lock.waiting.popleft())

    def _advance(self, running: _Running, answer: Any = None, error: ClusterError | None = None) -> None:
        flow = running.flow
        while True:
            try:
                step = flow.throw(error) if error is not None else flow.send(answer)
            except StopIteration as end:
                running.ended(end.value, None)
                return
            except ClusterError as raised:
                running.ended(None, raised)
                return
            answer = error = None
            if isinstance(step, Effect):
                self._last_id += 1
                self._waiting[self._last_id] = running
                self._effects.append(replace(step, id=self._last_id))
                return
            if isinstance(step, Lock):
                if step.held:
                    step.waiting.append(running)
                    return
                step.held = True
            elif step.flows:
                self._fork(running, step.flows)
                return
            else:
                answer = []

    def _fork(self, parent: _Running, flows: Iterable[Flow[Any]]) -> None:
        """Run the children of a flow; the last one to end resumes it, with the first error if any."""
        children = list(flows)
        results: list[Any] = [None] * len(children)
        errors: list[ClusterError] = []
        left = len(children)

        def ended(at: int, result: Any, error: ClusterError | None) -> None:
            nonlocal left
            left -= 1
            results[at] = result
            if error is not None:
                errors.append(error)
            if not left:
                self._advance(parent, results, errors[0] if errors else None)

        for at, child in enumerate(children):
            self._advance(_Running(child, partial(ended, at)))
