"""SplitQueue: which worker gets which inputs of one job; leases, their end, backup copies.

Workers pull. What one gets is decided by a chunk rule (`chunks.py`, `peers.py`); this module keeps the books,
takes inputs back from workers that are silent, and lets an idle worker copy what another one holds for too
long. A result counts once, whoever has the lease.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from fairlead.splitting.chunks import ChunkRule, SplitView, TimedChunks
from fairlead.splitting.items import BytesAt, SplitInput, SplitLease
from fairlead.splitting.rules import SplitRules
from fairlead.splitting.window import PendingWindow
from fairlead.splitting.worker import SplitWorker


@dataclass(frozen=True, slots=True)
class Completion:
    """An input that a worker has ended."""

    id: int
    seconds: float = 0.0
    """Of execution."""
    interval: float | None = None
    """Seconds since the completion before it, or since the lease came; None: the worker does not say."""


class SplitQueue:
    """The books of one job; `now` is in seconds of a clock that never goes back."""

    def __init__(self, rules: SplitRules | None = None, chunks: ChunkRule | None = None) -> None:
        self.rules = rules or SplitRules()
        self.window = PendingWindow()
        self.workers: dict[str, SplitWorker] = {}
        self.beyond = 0
        """Pending inputs that are not in the window."""
        self.complete = False
        """Whether no further input comes."""
        self._chunks = chunks or TimedChunks(self.rules)
        self._holders: dict[int, dict[str, SplitLease]] = {}
        self._numbers = 0

    @property
    def pending(self) -> int:
        """Inputs that no worker holds."""
        return len(self.window) + self.beyond

    @property
    def outstanding(self) -> int:
        """Inputs that workers hold."""
        return len(self._holders)

    @property
    def left(self) -> int:
        """Inputs without a result."""
        return self.pending + self.outstanding

    def is_held(self, number: int) -> bool:
        """Return whether a worker holds an input."""
        return number in self._holders

    def hear(
        self, name: str, site: str, slots: int, has: BytesAt, held: Collection[int], now: float
    ) -> SplitWorker:
        """Note what a worker says of itself; inputs that it does not hold any more go to others."""
        worker = self.worker(name, now)
        worker.site, worker.slots, worker.has, worker.seen = site, max(1, slots), has, now
        lost = [lease.input for number, lease in worker.held.items() if number not in held]
        for item in lost:
            self._release(name, item.id)
        self._requeue(lost)
        worker.dropped &= set(held)
        self._adopt(worker, held, now)
        worker.renew(now + self._lease_seconds(worker, 0))
        return worker

    def worker(self, name: str, now: float) -> SplitWorker:
        """Return a worker, which is a new one where its name is."""
        if name not in self.workers:
            self.workers[name] = SplitWorker(name, self.rules, now)
        return self.workers[name]

    def complete_inputs(self, name: str, ended: Sequence[Completion], now: float) -> None:
        """Note inputs that have a result now; others that hold them need not end them."""
        worker = self.worker(name, now)
        stated = [each.interval for each in ended if each.interval is not None]
        seconds = sum(stated) if len(stated) == len(ended) else now - worker.since
        worker.meter.add(len(ended), seconds)
        for each in ended:
            worker.done += 1
            worker.seconds += each.seconds
            self._forget(each.id, name)
        if ended:
            worker.since = now

    def fail(self, name: str, number: int, now: float) -> bool:
        """Note an input on which a worker failed; return whether no other worker tries it."""
        worker = self.worker(name, now)
        worker.failed += 1
        worker.since = now
        self._release(name, number)
        if number in self._holders:
            return False
        self.window.discard(number)
        return True

    def forget(self, number: int) -> None:
        """Note an input that has a result from elsewhere."""
        self._forget(number, "")

    def grant(self, name: str, now: float) -> list[SplitLease]:
        """Return what a worker shall do next: pending inputs, or copies where there are none."""
        worker = self.workers[name]
        view = SplitView(
            self.workers,
            self.left,
            self.pending,
            self.complete,
            now,
            self._overdue_of(now),
            self.window.unstored,
        )
        count = min(self._chunks.count(worker, view), self.rules.most)
        taken = self.window.take(count, worker.has) if count > 0 else []
        if taken:
            self._begin(worker, now)
            return self._lease(worker, taken, now, copy=False)
        if self.beyond or self.window.runnable(worker.has) or not self._chunks.copies:
            return []
        return self._copy(worker, now)

    def missing_bytes(self, name: str, now: float) -> list[SplitInput]:
        """Return the inputs that a worker would copy now if the store had their bytes."""
        worker = self.workers[name]
        if self.pending or not self._chunks.copies:
            return []
        mine = worker.ends(1, now)
        return [
            lease.input
            for ends, overdue, lease in self._candidates(worker, now, reachable=False)
            if overdue or ends > self.rules.sooner * mine
        ]

    def has_come(self, number: int) -> None:
        """Note that the bytes of an input that workers hold are in the store now."""
        for name, lease in self._holders.get(number, {}).items():
            fresh = replace(lease, input=replace(lease.input, stored=True))
            self._holders[number][name] = self.workers[name].held[number] = fresh

    def give_back(self, name: str, numbers: Iterable[int]) -> None:
        """Take inputs back that a worker was to get, and did not."""
        worker = self.workers[name]
        leases = [worker.held[number] for number in numbers]
        for lease in leases:
            self._release(name, lease.input.id)
        self._requeue([lease.input for lease in leases])

    def contact_of(self, name: str, now: float) -> float:
        """Return the seconds in which a worker shall make contact again, though it does not need anything."""
        rate = sum(each.speed(now) for each in self.workers.values())
        left = self.left / rate if rate else self.rules.rarely
        often = self.rules.often * max(1.0, len(self.workers) / 2)
        worker = self.workers[name]
        worker.contact = min(max(self.rules.rarely, often), max(often, left / 40))
        return worker.contact

    def expire(self, now: float) -> int:
        """Take inputs back whose lease has ended; return how many."""
        late: list[SplitInput] = []
        for worker in self.workers.values():
            for lease in [each for each in worker.held.values() if each.until <= now]:
                self._release(worker.name, lease.input.id)
                if lease.input.id not in self._holders:
                    late.append(lease.input)
        self._requeue(late)
        return len(late)

    def seconds_left(self, now: float) -> float | None:
        """Return the expected seconds until all inputs have a result; None: not known."""
        rate = sum(each.speed(now) for each in self.workers.values())
        return self.left / rate if rate else None

    def _overdue_of(self, now: float) -> int:
        """Return how many inputs are held by workers that seem to have stopped."""
        return sum(len(each.held) for each in self.workers.values() if each.held and each.is_overdue(1, now))

    def _adopt(self, worker: SplitWorker, held: Collection[int], now: float) -> None:
        """Lease what a worker holds from before a restart of the coordinator."""
        for number in held:
            if number in worker.held or number in worker.dropped or number not in self.window:
                continue
            item = self.window.pop(number)
            self._begin(worker, now)
            self._lease(worker, [item], now, copy=False)

    def _begin(self, worker: SplitWorker, now: float) -> None:
        if not worker.held:
            worker.since = now

    def _lease_seconds(self, worker: SplitWorker, more: int) -> float:
        rate = worker.rate
        expected = (len(worker.held) + more) / rate if rate else 0.0
        return max(self.rules.lease, self.rules.lease_factor * expected)

    def _lease(
        self, worker: SplitWorker, inputs: Sequence[SplitInput], now: float, *, copy: bool
    ) -> list[SplitLease]:
        until = now + self._lease_seconds(worker, len(inputs))
        leases = []
        for item in inputs:
            self._numbers += 1
            lease = SplitLease(item, worker.name, self._numbers, until, copy)
            worker.held[item.id] = lease
            worker.dropped.discard(item.id)
            self._holders.setdefault(item.id, {})[worker.name] = lease
            leases.append(lease)
        worker.copies += len(leases) if copy else 0
        return leases

    def _copy(self, worker: SplitWorker, now: float) -> list[SplitLease]:
        """Lease copies of inputs that this worker would end sooner: those first that would end last."""
        candidates = sorted(self._candidates(worker, now), key=lambda each: each[0], reverse=True)
        chosen: list[SplitInput] = []
        for ends, overdue, lease in candidates:
            mine = worker.ends(len(chosen) + 1, now)
            if len(chosen) >= max(worker.slots, self._copies_at_once(worker)):
                break
            if overdue or ends > self.rules.sooner * mine:
                chosen.append(lease.input)
        if chosen:
            self._begin(worker, now)
        return self._lease(worker, chosen, now, copy=True)

    def _copies_at_once(self, worker: SplitWorker) -> int:
        return int((worker.rate or 0.0) * self.rules.copying)

    def _candidates(
        self, worker: SplitWorker, now: float, *, reachable: bool = True
    ) -> Iterable[tuple[float, bool, SplitLease]]:
        """Yield what others hold and nobody copies: its expected end in seconds, whether it is overdue."""
        for other in self.workers.values():
            if other is worker:
                continue
            for position, lease in enumerate(other.held.values(), 1):
                holders = self._holders.get(lease.input.id, {})
                unreachable = worker.has is BytesAt.STORED and not lease.input.stored
                # Of workers that have not ended anything, a second copy is as good as a first.
                copied = len(holders) > 1 and any(self.workers[name].rate for name in holders)
                if copied or unreachable is reachable or worker.name in holders:
                    continue
                overdue = other.is_overdue(position, now)
                ends = other.ends_of(position, now)
                if other.rate is None:
                    # Of a worker that has not ended anything yet only its delay is known.
                    delay = max(self.rules.often, worker.ends(1, now))
                    overdue = worker.rate is None or now - other.since >= delay
                yield ends, overdue, lease

    def _release(self, name: str, number: int) -> None:
        self.workers[name].held.pop(number, None)
        holders = self._holders.get(number)
        if holders is not None:
            holders.pop(name, None)
            if not holders:
                del self._holders[number]

    def _requeue(self, inputs: Sequence[SplitInput]) -> None:
        free = [each for each in inputs if each.id not in self._holders]
        self.window.add(reversed(free), first=True)

    def _forget(self, number: int, by: str) -> None:
        for name in list(self._holders.get(number, {})):
            self._release(name, number)
            if name != by:
                self.workers[name].dropped.add(number)
        self.window.discard(number)
