"""Run a state machine: feed it events, begin the effects that it returns, and feed their outcomes back."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fairlead.errors import ClusterError
from fairlead.serve.machine.flow import Answered, Effect, Log, Sleep
from fairlead.serve.machine.recording import Recorder


def boottime() -> float:
    """Return seconds by a clock that counts while the machine sleeps and that no person sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class MachineRunner:
    """Runs one machine on the event loop; an exception in a task of it ends the program."""

    def __init__(
        self,
        handle: Callable[[Any, float], list[Effect]],
        perform: Callable[[Effect], Awaitable[Any]],
        say: Callable[[str], None],
        recorder: Recorder | None = None,
    ) -> None:
        self._handle = handle
        self._perform = perform
        self._say = say
        self._recorder = recorder
        self._group: asyncio.TaskGroup
        self._tasks: set[asyncio.Task[None]] = set()
        self.bell = asyncio.Event()
        """Set whenever an event was handled."""

    def enter(self, group: asyncio.TaskGroup) -> None:
        """Start tasks in this group from now on."""
        self._group = group

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work beside the machine until it ends, or until `cancel`."""
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        """Cancel what runs."""
        for task in tuple(self._tasks):
            task.cancel()

    def feed(self, event: Any) -> list[Effect]:
        """Handle an event by the machine, and begin its effects."""
        now = boottime()
        if self._recorder is None:
            effects = self._handle(event, now)
        else:
            self._recorder.event(event, now)
            effects = self._handle(event, now)
            self._recorder.effects(effects)
        for effect in effects:
            if isinstance(effect, Log):
                self._say(effect.line)
            elif effect.id:
                self.spawn(self._carry_out(effect))
        self.bell.set()
        return effects

    async def _carry_out(self, effect: Effect) -> None:
        """Perform an effect, and feed its outcome back."""
        try:
            if isinstance(effect, Sleep):
                await asyncio.sleep(effect.seconds)
                self.feed(Answered(effect.id))
            else:
                self.feed(Answered(effect.id, await self._perform(effect)))
        except ClusterError as error:
            self.feed(Answered(effect.id, error=error))
