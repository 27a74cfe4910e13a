"""LiveJob: a job that runs: its queue, and the window of its pending inputs that is in memory."""

import math
from collections.abc import Collection, Sequence
from typing import Any, Final

from fairlead.splitting.items import BytesAt, SplitInput
from fairlead.splitting.policy.explain import to_json
from fairlead.splitting.policy.rule import OffloadRule
from fairlead.splitting.queue import SplitQueue
from fairlead.splitting.rate import RateMeter
from fairlead.splitting.rules import SplitRules
from fairlead.splitting.worker import SplitWorker
from fairlead.store.jobs.database import JobsDatabase
from fairlead.store.jobs.records import SplitJobRecord
from fairlead.store.jobs.spec import SplitJobSpec, parse_spec

_LOW: Final = 2000
"""With fewer inputs in the window it is filled again."""
_FILL: Final = 3000
_AHEAD: Final = 4.0
"""Seconds of work whose bytes are brought to workers elsewhere before they need them."""
_MOST_WANTED: Final = 256
_HURRY: Final = 1.5
"""The link may be this much faster than it was."""
MOST_PENDING: Final = 50_000
"""Pending inputs that a job takes; a feeder waits for room."""


class LiveJob:
    """A job that is not ended."""

    def __init__(self, record: SplitJobRecord, database: JobsDatabase, rules: SplitRules) -> None:
        self.record = record
        self.spec: SplitJobSpec = parse_spec(record.spec)
        self.state = record.state
        self.started = record.started
        self.rule = self.spec.chunks(rules)
        self.queue = SplitQueue(rules, self.rule)
        self.queue.complete = record.complete
        self.open, self.done, self.failed = database.counts(record.number)
        self._database = database
        self._cursor = 0
        self._arrivals = RateMeter(rules)
        """How fast bytes come that were wanted."""
        self._since = 0.0
        self.fill()

    @property
    def is_finished(self) -> bool:
        """Whether each input has a result or has failed, and no further one comes."""
        return self.queue.complete and self.open == 0

    @property
    def decision(self) -> dict[str, Any] | None:
        """The decision of the policy; None: the job has another one, or no worker has asked yet."""
        if not isinstance(self.rule, OffloadRule) or self.rule.state is None:
            return None
        return {**to_json(self.rule.state.decision), "changes": self.rule.state.changes}

    @property
    def room(self) -> int:
        """How many more inputs it takes now."""
        return max(0, MOST_PENDING - self.open)

    def fill(self) -> None:
        """Fill the window from the database."""
        window = self.queue.window
        beyond = self.open - len(window) - self.queue.outstanding
        while beyond > 0 and len(window) < _LOW:
            rows = self._database.pending(self.record.number, self._cursor, _FILL)
            if not rows:
                break
            self._cursor = rows[-1][0]
            # Copies and inputs that came back are here already.
            fresh = [row for row in rows if row[0] not in window and not self.queue.is_held(row[0])]
            window.add(SplitInput(*row) for row in fresh)
            beyond = self.open - len(window) - self.queue.outstanding
        self.queue.beyond = max(0, beyond)

    def added(self, count: int, stored: Collection[int], now: float) -> None:
        """Count new inputs, and those whose bytes have come to the store."""
        self.open += count
        if stored:
            self._arrivals.add(len(stored), now - self._since)
            self._since = now
        for number in stored:
            if number in self.queue.window:
                old = self.queue.window.pop(number)
                fresh = SplitInput(old.id, old.path, old.digest, old.size, stored=True, where=old.where)
                self.queue.window.add((fresh,))
            elif self.queue.is_held(number):
                self.queue.has_come(number)
        self.fill()

    def lost(self, numbers: Collection[int]) -> None:
        """Count inputs whose bytes nobody can bring any more: they have failed."""
        self.open -= len(numbers)
        self.failed += len(numbers)
        for number in numbers:
            self.queue.forget(number)
        self.fill()

    def rewind(self, count: int) -> None:
        """Count inputs that are pending again, wherever they are in the order."""
        self.open += count
        self.failed -= count
        self._cursor = 0
        self.fill()

    def wanted(self, now: float) -> Sequence[str]:
        """Return the inputs whose bytes a worker elsewhere needs soon."""
        away = [each for each in self.queue.workers.values() if each.has is BytesAt.STORED]
        # An unmeasured worker needs one for each slot, and one after it.
        least = 2.0 * sum(each.slots for each in away)
        need = max(least, sum(each.speed(now) for each in away) * _AHEAD)
        if self._arrivals.rate is not None:
            # More than the link brings in that time would only keep it from whoever has the bytes.
            need = max(least, min(need, _HURRY * self._arrivals.rate * _AHEAD))
        have = self.queue.window.runnable(BytesAt.STORED)
        count = min(_MOST_WANTED, max(0, math.ceil(need) - have))
        if not self.queue.window.wanted:
            self._since = now
        wanted = [each.path for each in self.queue.window.want(count)]
        return [*wanted, *(path for path in self._for_copies(away, now) if path not in wanted)]

    def _for_copies(self, away: Sequence[SplitWorker], now: float) -> Sequence[str]:
        """Return the inputs that workers elsewhere would copy at the end, if they had the bytes."""
        missing = [self.queue.missing_bytes(each.name, now)[: each.slots] for each in away]
        return list(dict.fromkeys(item.path for items in missing for item in items))
