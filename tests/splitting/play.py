"""A job played in virtual time: workers of some rate that pull from a SplitQueue as real ones do."""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from fairlead.splitting.items import BytesAt, SplitInput, SplitLease
from fairlead.splitting.queue import Completion, SplitQueue


@dataclass
class PlayedWorker:
    """A worker of a fixed rate, with a delay of its exchanges."""

    name: str
    rate: float
    site: str = "device"
    delay: float = 0.003
    lost: bool = False
    waiting: deque[SplitLease] = field(default_factory=deque)
    current: SplitLease | None = None
    began: float = 0.0
    left: float = 0.0
    """Of the current input, as a share."""
    ended: list[Completion] = field(default_factory=list)
    ready: dict[int, float] = field(default_factory=dict)
    last_end: float = 0.0
    chunk: int = 1
    busy: bool = False
    """Whether an exchange is on its way."""
    contact: float = 0.5
    asked: float = 0.0


@dataclass
class Played:
    """What came of it."""

    makespan: float
    results: int
    twice: int
    """Results of inputs that had one."""
    by: dict[str, int]
    copies: int


class Play:
    """Plays one job."""

    def __init__(self, queue: SplitQueue, workers: list[PlayedWorker], inputs: int) -> None:
        self.queue, self.workers, self.inputs = queue, workers, inputs
        self.now = 0.0
        self.done: dict[int, str] = {}
        self.twice = self.copies = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self.last = 0.0
        self.strikes: list[tuple[int, Callable[[], None]]] = []
        queue.window.add(SplitInput(number, str(number), "", 1) for number in range(inputs))
        queue.complete = True

    def at(self, time: float, act: Callable[[], None]) -> None:
        """Have something happen."""
        heapq.heappush(self._events, (time, next(self._order), act))

    def run(self, most: float = 1e5) -> Played:
        """Play until each input has a result."""
        for worker in self.workers:
            self.at(0.0, partial(self._exchange, worker))
        while self._events and len(self.done) < self.inputs and self.now < most:
            self.now, _, act = heapq.heappop(self._events)
            act()
        by = {worker.name: 0 for worker in self.workers}
        for name in self.done.values():
            by[name] += 1
        return Played(self.last, len(self.done), self.twice, by, self.copies)

    def change_rate(self, worker: PlayedWorker, rate: float) -> None:
        """Have a worker go on at another rate, also with its current input."""
        if worker.current is not None:
            worker.left -= (self.now - worker.began) * worker.rate
            worker.began = self.now
            self._end_at(worker, worker.current, worker.left / rate)
        worker.rate = rate

    def _exchange(self, worker: PlayedWorker) -> None:
        if worker.lost or worker.busy:
            return
        worker.busy, worker.asked = True, self.now
        ended, worker.ended = worker.ended, []
        self.at(self.now + worker.delay / 2, lambda: self._arrives(worker, ended))

    def _arrives(self, worker: PlayedWorker, ended: list[Completion]) -> None:
        held = {each.input.id for each in worker.waiting}
        if worker.current is not None:
            held.add(worker.current.input.id)
        held |= {each.id for each in worker.ended}
        fresh = [each for each in ended if each.id not in self.done]
        self.twice += len(ended) - len(fresh)
        for each in fresh:
            self.done[each.id] = worker.name
            self.last = self.now
        self.queue.complete_inputs(worker.name, fresh, self.now)
        self.queue.hear(worker.name, worker.site, 1, BytesAt.ALL, held, self.now)
        self.queue.expire(self.now)
        dropped = set(self.queue.workers[worker.name].dropped)
        wants = len(worker.waiting) <= worker.chunk / 2
        leases = self.queue.grant(worker.name, self.now) if wants else []
        self.copies += sum(each.copy for each in leases)
        worker.contact = self.queue.contact_of(worker.name, self.now)
        for number, strike in list(self.strikes):
            if len(self.done) >= number:
                self.strikes.remove((number, strike))
                strike()
        self.at(self.now + worker.delay / 2, lambda: self._answer(worker, leases, dropped))

    def _answer(self, worker: PlayedWorker, leases: list[SplitLease], dropped: set[int]) -> None:
        worker.busy = False
        if worker.lost:
            return
        worker.waiting = deque(each for each in worker.waiting if each.input.id not in dropped)
        if leases:
            worker.chunk = len(leases)
        for lease in leases:
            worker.ready[lease.input.id] = self.now
            worker.waiting.append(lease)
        if worker.current is None:
            self._next(worker)
        idle = worker.current is None
        self.at(self.now + (0.02 if idle else worker.contact), lambda: self._tick(worker))
        if leases and len(worker.waiting) <= worker.chunk / 2:
            self._exchange(worker)

    def _tick(self, worker: PlayedWorker) -> None:
        if not worker.busy and self.now - worker.asked >= 0.019:
            self._exchange(worker)

    def _next(self, worker: PlayedWorker) -> None:
        if not worker.waiting:
            worker.current = None
            return
        worker.current = worker.waiting.popleft()
        worker.began, worker.left = self.now, 1.0
        self._end_at(worker, worker.current, 1.0 / worker.rate)

    def _end_at(self, worker: PlayedWorker, lease: SplitLease, seconds: float) -> None:
        rate = worker.rate

        def end() -> None:
            if worker.lost or worker.current is not lease or (worker.rate != rate and seconds == 1.0 / rate):
                return
            if worker.current is lease and self.now + 1e-9 < worker.began + worker.left / worker.rate:
                return
            began = max(worker.last_end, worker.ready.pop(lease.input.id))
            worker.ended.append(Completion(lease.input.id, self.now - began, self.now - began))
            worker.last_end = self.now
            self._next(worker)
            if worker.current is None or len(worker.waiting) <= worker.chunk / 2:
                self._exchange(worker)

        self.at(self.now + seconds, end)
