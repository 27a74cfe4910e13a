"""Keep a copy of a cluster's objects of one kind, and say what changes, whatever happens on the way.

    async with Informer(client, PODS, fields="spec.nodeName=n1") as pods:
        await pods.ready()
        async for change in pods.changes():
            print(change.type, change.key, len(pods.objects))

What to ask and what to believe is decided in `replica.py`; here it is asked.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from random import Random
from types import TracebackType
from typing import Final, Generic

from fairlead import errors
from fairlead.cluster.api import ClusterClient
from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import T, WatchEvent
from fairlead.cluster.watch.changes import ChangeQueue, Key, ObjectChange
from fairlead.cluster.watch.reflector import NextRequest, Reflector, RequestEnd, WatchTiming
from fairlead.compat.aio import TIMEOUTS

Handler = Callable[[ObjectChange[T]], None]
_ENDS: Final[Mapping[type[errors.FairleadError], RequestEnd]] = {
    errors.ClusterUnavailableError: RequestEnd.UNAVAILABLE,
    errors.TooManyRequestsError: RequestEnd.UNAVAILABLE,
    errors.UserError: RequestEnd.UNAVAILABLE,  # a login that cannot be renewed just now
    errors.GoneError: RequestEnd.GONE,
    errors.TooNewError: RequestEnd.TOO_NEW,
    errors.InvalidError: RequestEnd.REFUSED,
}
_USUAL: Final = WatchTiming()


class Informer(Generic[T]):
    """A copy that follows the cluster while it runs."""

    def __init__(  # noqa: PLR0913 - a question to a cluster has these parts
        self,
        cluster: ClusterClient,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        timing: WatchTiming = _USUAL,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
    ) -> None:
        self._cluster = cluster
        self._kind = kind
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._timing = timing
        self._clock = clock
        self._random = random or Random()  # noqa: S311 - spreads load, keeps no secret
        self._replica: Reflector[T] = Reflector(timing, self._random)
        self._handlers: list[Handler[T]] = []
        self._bells: set[asyncio.Event] = set()
        self._alive: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._over = False
        self.last_error: errors.FairleadError | None = None
        """Why nothing is heard at present; None when all is well."""

    @property
    def objects(self) -> Mapping[Key, T]:
        """The objects by namespace and name, in a view that stays true and cannot be written to."""
        return self._replica.objects

    @property
    def synced(self) -> bool:
        """Whether a whole list has been taken in since the start."""
        return self._replica.synced

    @property
    def age(self) -> float:
        """Seconds since the cluster was last heard of; about 60 is normal where nothing happens."""
        return float("inf") if self._alive is None else self._clock() - self._alive

    def subscribe(self, handler: Handler[T]) -> None:
        """Have every change passed to `handler`, once and in order, after the copy has changed.

        What is there already comes at once, as added. A handler must not block, and what it raises ends
        the informer: a change that was not taken in cannot be made good.
        """
        for item in tuple(self.objects.values()):
            handler(ObjectChange(None, item))
        self._handlers.append(handler)

    async def changes(self) -> AsyncGenerator[ObjectChange[T], None]:
        """Yield what changes, beginning with what is there.

        A reader that is slower than the cluster is told the latest state of each object instead of every
        state in between; deletions are never left out.
        """
        backlog: ChangeQueue[T] = ChangeQueue()
        bell = asyncio.Event()
        for item in self.objects.values():
            backlog.put(ObjectChange(None, item))

        def note(change: ObjectChange[T]) -> None:
            backlog.put(change)
            bell.set()

        self._handlers.append(note)
        self._bells.add(bell)
        try:
            while len(backlog) or not self._over:
                if not len(backlog):
                    await bell.wait()
                    bell.clear()
                while len(backlog):
                    for change in backlog.take():
                        yield change
        finally:
            self._handlers.remove(note)
            self._bells.discard(bell)

    async def wait_for_sync(self) -> None:
        """Return when a whole list has been taken in; raise what keeps it from ever coming."""
        bell = asyncio.Event()
        self._bells.add(bell)
        try:
            while not self.synced and not self._over:
                await bell.wait()
                bell.clear()
        finally:
            self._bells.discard(bell)
        if not self.synced and self._task is not None and self._task.done():
            self._task.result()
        if not self.synced:
            raise errors.ClusterError(f"the informer of {self._kind} ended before it knew anything")

    async def run(self) -> None:
        """Follow the cluster until cancelled.

        Before the first list, what a person must mend (no access, no such API) is raised; after it, the
        copy is kept and `trouble` says why it grows old.
        """
        self._over = False
        try:
            while True:
                step = self._replica.next_request()
                await asyncio.sleep(step.wait)
                await self._perform(step)
        finally:
            self._over = True
            self._ring()

    async def __aenter__(self) -> "Informer[T]":
        """Begin to follow the cluster beside what the caller does."""
        self._task = asyncio.create_task(self.run(), name=f"informer of {self._kind}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop; what ended the informer before is raised, unless something else is on its way."""
        assert self._task is not None, "entered"
        self._task.cancel()
        await asyncio.wait([self._task])
        if error is None:
            with suppress(asyncio.CancelledError):
                self._task.result()

    async def _perform(self, step: NextRequest) -> None:
        began, end = self._clock(), RequestEnd.CLOSED
        try:
            if step.ask == "list":
                return await self._list()
            await self._watch(step)
        except errors.FairleadError as error:
            end = self._end_of(error, began)
            if not self.synced and error.exit_code == 2 and (step.ask, end) != ("stream", RequestEnd.REFUSED):
                raise
            self.last_error = error
        return self._replica.on_request_end(end, self._clock() - began)

    async def _list(self) -> None:
        listing = await self._cluster.list(
            self._kind, self._namespace, labels=self._labels, fields=self._fields
        )
        self._hear()
        self._tell(self._replica.on_list(listing.items, listing.resource_version))

    async def _watch(self, step: NextRequest) -> None:
        stream = self._cluster.watch(
            self._kind,
            self._namespace,
            resource_version=step.version,
            labels=self._labels,
            fields=self._fields,
            timeout=self._random.uniform(*self._timing.watch),
            idle=self._timing.idle_timeout,
            send_initial_events=step.ask == "stream",
        )
        async with aclosing(stream) as events:
            async for event in events:
                following = self._replica.following
                self._take(event)
                if following and not self._replica.following:
                    return  # what was said cannot be right: ask anew

    def _take(self, event: WatchEvent[T]) -> None:
        self._hear()
        if event.type == "BOOKMARK":
            version = event.object.metadata.resource_version
            self._tell(self._replica.on_bookmark(version, complete=event.initial_end))
        else:
            self._tell(self._replica.on_event(event.type, event.object))

    def _hear(self) -> None:
        self._alive = self._clock()
        self.last_error = None

    def _tell(self, changes: Iterable[ObjectChange[T]]) -> None:
        for change in changes:
            for handler in tuple(self._handlers):
                handler(change)
        if self.synced:
            self._ring()

    def _ring(self) -> None:
        for bell in self._bells:
            bell.set()

    def _end_of(self, error: errors.FairleadError, began: float) -> RequestEnd:
        end = next((end for kind, end in _ENDS.items() if isinstance(error, kind)), RequestEnd.FAILED)
        # A connection that is not made in time is one that failed; one that stood and said nothing is dead.
        quiet = min(self.age, self._clock() - began) >= 0.9 * self._timing.idle_timeout
        return RequestEnd.TIMED_OUT if quiet and isinstance(error.__cause__, TIMEOUTS) else end
