"""SplitCoordinator: the split jobs of a store; it leases inputs and commits results, durably and once.

Killed at any point it goes on where it was: leases are not recorded, and a worker that holds inputs says so
in its next exchange.
"""

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final

from fairlead.splitting.items import SplitLease
from fairlead.splitting.queue import Completion
from fairlead.splitting.rules import SplitRules
from fairlead.store.jobs.database import JobsDatabase
from fairlead.store.jobs.documents import job_document, lease_document
from fairlead.store.jobs.live import LiveJob
from fairlead.store.jobs.records import ENDED, Committed, NewInput, SplitJobRecord
from fairlead.store.jobs.requests import WorkerExchange
from fairlead.store.jobs.spec import parse_spec
from fairlead.store.refusal import RefusedError

_LOOK: Final = 0.1
"""Seconds after which a waiting worker's lot is looked at again: leases end, and others become late."""
_PAGE: Final = 500
_LEASE_BYTES: Final = 256 << 10
"""Bytes of paths in one reply."""


class SplitCoordinator:
    """Answers feeders, workers and users of jobs; any thread may call it."""

    def __init__(
        self,
        database: JobsDatabase,
        *,
        rules: SplitRules | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        writing: Callable[[], AbstractContextManager[None]] = nullcontext,
        waiters: int = 16,
    ) -> None:
        """Take a database; `writing` holds while it is written, and `waiters` may wait for leases at once."""
        self.database = database
        self.changed = threading.Condition(threading.RLock())
        """Held for all that is done here; notified of each change."""
        self._rules = rules or SplitRules()
        self._clock, self._wall = clock, wall
        self._writing = writing
        self._waiters = waiters
        self._live: dict[str, LiveJob] = {}
        self._ended = [record.id for state in ENDED for record in database.jobs(state)]

    def make(self, document: Mapping[str, Any]) -> str:
        """Make a job, and return its id."""
        parse_spec(document)
        name = secrets.token_hex(5)
        with self.changed:
            self.database.make(name, json.dumps(document), self._wall())
        return name

    def jobs(self, state: str = "") -> list[dict[str, Any]]:
        """Return what is known of all jobs, or of those in a state, the newest first."""
        with self.changed:
            return [self._document(record) for record in self.database.jobs(state)]

    def job(self, name: str) -> dict[str, Any]:
        """Return what is known of a job."""
        with self.changed:
            return self._document(self._record(name))

    def add(
        self, name: str, inputs: list[NewInput], *, complete: bool, gone: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Add inputs to a job; return how many more it takes, and whose bytes are wanted.

        Files that are gone, or have another content by now, fail: no worker elsewhere can get them.
        """
        with self.changed:
            job = self._job(name)
            if inputs:
                # Inputs that came already are taken beyond the room as well: they cost none.
                job.added(*self.database.add(job.record.number, inputs), self._clock())
            present = [(each.path, each.digest) for each in inputs if each.stored]
            if present or gone:
                job.lost(self.database.lose(job.record.number, [*present, *((path, "") for path in gone)]))
            if complete and not job.queue.complete:
                self.database.set_state(job.record.number, job.state, complete=True, started=job.started)
                job.queue.complete = True
            wanted = job.wanted(self._clock())
            self._settle(job)
            self.changed.notify_all()
            return {"room": job.room, "wanted": list(wanted), "state": job.state}

    def exchange(self, name: str, request: WorkerExchange) -> dict[str, Any]:
        """Take what a worker hands in, and return what it shall do next."""
        with self._writing(), self.changed:
            record = self._record(name)
            if record.state in ENDED:
                held = [*request.held, *(each.input for each in request.results)]
                return {"leases": [], "dropped": held, "state": record.state, "again": 1.0, "committed": 0}
            job = self._job(name)
            committed, dropped = self._take(job, request)
            self._settle(job)
            leases = self._grant(job, request)
            job.fill()
        with self.changed:
            if not leases and request.want and request.wait and not request.held:
                leases = self._wait(job, request)
            worker = job.queue.workers[request.worker]
            return {
                "leases": [lease_document(job.record.id, lease) for lease in leases],
                "dropped": sorted(dropped | worker.dropped),
                "state": "waiting" if job.state == "running" and not job.queue.left else job.state,
                "again": round(job.queue.contact_of(request.worker, self._clock()), 4),
                "committed": committed,
            }

    def cancel(self, name: str) -> dict[str, Any]:
        """End a job; its results stay."""
        with self.changed:
            record = self._record(name)
            if record.state not in ENDED:
                job = self._job(name)
                self._set_state(job, "cancelled")
            return self._document(self._record(name))

    def again(self, name: str) -> dict[str, Any]:
        """Let failed inputs, and no others, be done again; return how many."""
        with self.changed:
            record = self._record(name)
            if record.state == "cancelled":
                raise RefusedError(409, "this job was cancelled: submit a new one")
            count = self.database.retry(record.number)
            if name in self._live:
                self._live[name].rewind(count)
            elif count:
                self.database.set_state(
                    record.number, "running", complete=record.complete, started=record.started
                )
            self.changed.notify_all()
            return {"again": count}

    def failures(self, name: str, after: int) -> dict[str, Any]:
        """Return failed inputs, a page of them."""
        with self.changed:
            rows = self.database.rows(
                "SELECT seq, path, digest, worker, exit, error FROM inputs WHERE job = ? AND state = 2 "
                "AND seq > ? ORDER BY seq LIMIT ?",
                (self._record(name).number, after, _PAGE),
            )
        return _page("failures", ("input", "path", "digest", "worker", "exit", "error"), rows)

    def results(self, name: str, after: int) -> dict[str, Any]:
        """Return results in the order of their commits, a page of them."""
        with self.changed:
            rows = self.database.rows(
                "SELECT number, path, digest, worker, result, result_size, seconds, unplaced FROM inputs "
                "WHERE job = ? AND state = 1 AND number > ? ORDER BY number LIMIT ?",
                (self._record(name).number, after, _PAGE),
            )
        names = ("number", "path", "digest", "worker", "result", "size", "seconds", "unplaced")
        return _page("results", names, rows)

    def is_result(self, staged: str, number: int) -> bool:
        """Return whether an upload is the result of an input."""
        with self.changed:
            return self.database.is_staged(staged, number)

    def take_ended(self) -> list[str]:
        """Return the jobs that have ended since the last time, but those that run again."""
        with self.changed:
            ended, self._ended = self._ended, []
            return [name for name in ended if self._record(name).state in ENDED]

    def _take(self, job: LiveJob, request: WorkerExchange) -> tuple[int, set[int]]:
        """Commit results and failures; return how many count, and the inputs that others have done."""
        now, queue = self._clock(), job.queue
        queue.worker(request.worker, now)
        final = [
            each for each in request.failures if not _is_tried_elsewhere(job, request.worker, each.input)
        ]
        who = (request.worker, request.site)
        counted = self.database.commit(job.record.number, who, request.results, final, self._wall())
        for each in request.failures:
            queue.fail(request.worker, each.input, now)
        ended = [each for each in request.results if each.input in counted.done]
        queue.complete_inputs(
            request.worker, [Completion(each.input, each.seconds, each.interval) for each in ended], now
        )
        queue.hear(request.worker, request.site, request.slots, request.has, request.held, now)
        queue.expire(now)
        self._count(job, counted)
        return len(counted.done), {each.input for each in request.results} - counted.done

    def _count(self, job: LiveJob, counted: Committed) -> None:
        job.open -= len(counted.done) - counted.revived + len(counted.failed)
        job.done += len(counted.done)
        job.failed += len(counted.failed) - counted.revived
        if counted.done or counted.failed:
            self.changed.notify_all()

    def _grant(self, job: LiveJob, request: WorkerExchange) -> list[SplitLease]:
        if not request.want or self._is_over(job):
            return []
        leases = job.queue.grant(request.worker, self._clock())
        size = 0
        for count, lease in enumerate(leases):
            size += len(lease.input.path)
            if size > _LEASE_BYTES and count:
                job.queue.give_back(request.worker, [each.input.id for each in leases[count:]])
                leases = leases[:count]
                break
        if leases and job.started is None:
            job.started = self._wall()
            with suppress(RefusedError):  # a full disk must not stop what is recorded elsewhere
                self.database.set_state(
                    job.record.number, job.state, complete=job.queue.complete, started=job.started
                )
        return leases

    def _wait(self, job: LiveJob, request: WorkerExchange) -> list[SplitLease]:
        """Wait until there is something for an idle worker to do, or a while."""
        if self._waiters < 1:
            return []
        self._waiters -= 1
        end = self._clock() + request.wait
        leases: list[SplitLease] = []
        try:
            while not leases and not self._is_over(job) and (left := end - self._clock()) > 0:
                # Time alone changes nothing where there is nothing to do.
                self.changed.wait(min(left, _LOOK) if job.queue.left else left)
                with suppress(RefusedError), self._writing():  # the store is being moved, perhaps
                    leases = self._look(job, request)
        finally:
            self._waiters += 1
        return leases

    def _look(self, job: LiveJob, request: WorkerExchange) -> list[SplitLease]:
        now = self._clock()
        job.queue.expire(now)
        job.fill()
        job.queue.worker(request.worker, now).seen = now
        return self._grant(job, request)

    def _is_over(self, job: LiveJob) -> bool:
        return job.state in ENDED

    def _settle(self, job: LiveJob) -> None:
        """End a job that has nothing left to do."""
        if job.state == "running" and job.is_finished:
            self._set_state(job, "done")

    def _set_state(self, job: LiveJob, state: str) -> None:
        self.database.set_state(job.record.number, state, complete=job.queue.complete, started=job.started)
        job.state = state
        self._ended.append(job.record.id)
        self._live.pop(job.record.id, None)
        self.changed.notify_all()

    def _record(self, name: str) -> SplitJobRecord:
        record = self.database.job(name)
        if record is None:
            raise RefusedError(404, f"{name}: there is no such job")
        return record

    def _job(self, name: str) -> LiveJob:
        if name not in self._live:
            record = self._record(name)
            if record.state in ENDED:
                raise RefusedError(409, f"{name}: this job is {record.state}")
            self._live[name] = LiveJob(record, self.database, self._rules)
        return self._live[name]

    def _document(self, record: SplitJobRecord) -> dict[str, Any]:
        live = self._live.get(record.id)
        counts = (live.open, live.done, live.failed) if live else self.database.counts(record.number)
        return job_document(record, counts, self.database.workers(record.number), live, self._clock())


def _is_tried_elsewhere(job: LiveJob, worker: str, number: int) -> bool:
    others = (each for each in job.queue.workers.values() if each.name != worker)
    return any(number in each.held for each in others)


def _page(key: str, names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    following = rows[-1][0] if len(rows) == _PAGE else None
    return {key: [dict(zip(names, row, strict=True)) for row in rows], "next": following}
