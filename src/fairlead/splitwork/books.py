"""WorkBooks: what a worker holds: inputs that wait, run and are finished; its threads meet here."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from fairlead.splitwork.task import FinishedInput, LeasedInput, WorkTask


@dataclass(frozen=True, slots=True)
class HandIn:
    """What a worker hands in at once."""

    finished: tuple[FinishedInput, ...]
    held: tuple[int, ...]
    """Inputs that it still has."""
    wants: bool
    is_idle: bool


class WorkBooks:
    """The inputs of one worker for one job."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        lock = threading.Lock()
        self.changed = threading.Condition(lock)
        """Notified when an exchange may be due: not of each input, there may be thousands a second."""
        self._runnable = threading.Condition(lock)
        self._missing = threading.Condition(lock)
        self._large = threading.Condition(lock)
        self.ending = False
        self._clock = clock
        self._waiting: OrderedDict[int, WorkTask] = OrderedDict()
        self._running: dict[int, WorkTask] = {}
        self._fetching: set[int] = set()
        self._finished: OrderedDict[int, FinishedInput] = OrderedDict()
        self._chunk = 0
        self._last_end = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self._waiting and not self._running

    @property
    def wants(self) -> bool:
        """Whether half of the last chunk, or less, waits."""
        return 2 * len(self._waiting) <= self._chunk

    @property
    def has_results(self) -> bool:
        """Whether there is something to hand in."""
        return any(each.is_ready for each in self._finished.values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left, also to hand in."""
        return self.is_idle and not self._finished

    def add(self, leases: Iterable[LeasedInput], find: Callable[[LeasedInput], str | None]) -> None:
        """Add inputs that were leased; the bytes of those that are not found are fetched."""
        fresh = [WorkTask(lease, self._clock(), find(lease) or "") for lease in leases]
        with self.changed:
            now = self._clock()
            for task in fresh:
                number = task.lease.input
                if number in self._running or number in self._finished or number in self._waiting:
                    continue
                task.ready = now if task.source else 0.0
                self._waiting[number] = task
            self._chunk = len(fresh) or self._chunk
            self._runnable.notify_all()
            self._missing.notify_all()

    def restore(self, finished: Iterable[FinishedInput]) -> None:
        """Add what an earlier process has finished."""
        with self.changed:
            for each in finished:
                self._finished[each.lease.input] = each

    def next_ready(self) -> WorkTask | None:
        """Wait for an input whose bytes are there, and return it; None at the end."""
        with self.changed:
            while not self.ending:
                for number, task in self._waiting.items():
                    if task.source:
                        del self._waiting[number]
                        self._running[number] = task
                        if 2 * len(self._waiting) <= self._chunk < 2 * len(self._waiting) + 2:
                            self.changed.notify_all()
                        return task
                self._runnable.wait()
        return None

    def next_to_fetch(self) -> WorkTask | None:
        """Wait for an input whose bytes are needed, and return it; None at the end."""
        with self.changed:
            while not self.ending:
                for number, task in self._waiting.items():
                    if not task.source and number not in self._fetching:
                        self._fetching.add(number)
                        return task
                self._missing.wait()
        return None

    def next_to_stage(self) -> FinishedInput | None:
        """Wait for a result that must be uploaded, and return it; None at the end."""
        with self.changed:
            while not self.ending:
                for each in self._finished.values():
                    if not each.is_ready:
                        return each
                self._large.wait()
        return None

    def not_fetched(self, task: WorkTask) -> None:
        """Note that the bytes of an input are still to be fetched."""
        with self.changed:
            self._fetching.discard(task.lease.input)
            self._missing.notify()

    def fetched(self, task: WorkTask, source: str) -> bool:
        """Note that the bytes of an input are there; False: it is not wanted any more."""
        with self.changed:
            self._fetching.discard(task.lease.input)
            if self._waiting.get(task.lease.input) is not task:
                return False
            task.source, task.ready, task.fetched = source, self._clock(), True
            self._runnable.notify()
            return True

    def is_waiting(self, task: WorkTask) -> bool:
        """Return whether an input still waits for its turn."""
        return self._waiting.get(task.lease.input) is task

    def interval_of(self, task: WorkTask) -> float:
        """Return the seconds since the completion before, or since the lease came where that was later."""
        with self.changed:
            now = self._clock()
            since, self._last_end = max(self._last_end, task.arrived), now
            return max(0.0, now - since)

    def finish(self, finished: FinishedInput) -> None:
        """Note an input that has ended, well or not."""
        with self.changed:
            number = finished.lease.input
            self._running.pop(number, None)
            self._waiting.pop(number, None)
            self._finished[number] = finished
            if not finished.is_ready:
                self._large.notify()
            if not self._waiting:
                self.changed.notify_all()

    def give_up(self, number: int) -> None:
        """Forget an input: it goes to others."""
        with self.changed:
            self._running.pop(number, None)
            self._waiting.pop(number, None)
            self.changed.notify_all()

    def staged(self, finished: FinishedInput, path: str) -> None:
        """Note that a result was uploaded; an empty path: that it must be, again."""
        with self.changed:
            if finished.lease.input in self._finished:
                self._finished[finished.lease.input] = replace(finished, staged=path)
            self._large.notify()
            self.changed.notify_all()

    def hand_in(self, most: int, most_bytes: int) -> HandIn:
        """Return what can be handed in now."""
        with self.changed:
            chosen: list[FinishedInput] = []
            size = 0
            for each in self._finished.values():
                size += len(each.data or b"")
                if len(chosen) >= most or (chosen and size > most_bytes):
                    break
                if each.is_ready:
                    chosen.append(each)
            sent = {each.lease.input for each in chosen}
            rest = (number for number in self._finished if number not in sent)
            held = (*self._waiting, *self._running, *rest)
            return HandIn(tuple(chosen), held, self.wants, self.is_idle)

    def handed_in(self, finished: Collection[FinishedInput]) -> None:
        """Forget what the coordinator has, or has from another worker."""
        with self.changed:
            for each in finished:
                self._finished.pop(each.lease.input, None)

    def finished(self) -> list[FinishedInput]:
        """Return what is finished and not handed in."""
        with self.changed:
            return list(self._finished.values())

    def drop(self, numbers: Collection[int]) -> None:
        """Forget inputs that wait and that others have done; what runs is ended."""
        with self.changed:
            for number in numbers:
                self._waiting.pop(number, None)

    def clear_waiting(self) -> None:
        """Forget all that waits: it goes to others."""
        with self.changed:
            self._waiting.clear()
            self.changed.notify_all()

    def end(self) -> None:
        """Let the threads end."""
        with self.changed:
            self.ending = True
            for each in (self.changed, self._runnable, self._missing, self._large):
                each.notify_all()
