"""Keep a local copy of the objects of one kind, and report each change, whatever fails on the way.

    async with Informer(client, PODS, fields="spec.nodeName=n1") as pods:
        await pods.wait_for_sync()
        async for change in pods.changes():
            print(change.type, change.key, len(pods.objects))

`reflector.py` decides which request comes next and what a response changes; this module sends the requests.
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
_CANCELLED_AGAIN: Final = 1.0
_END_BY_ERROR: Final[Mapping[type[errors.FairleadError], RequestEnd]] = {
    errors.ClusterUnavailableError: RequestEnd.UNAVAILABLE,
    errors.TooManyRequestsError: RequestEnd.UNAVAILABLE,
    errors.UserError: RequestEnd.UNAVAILABLE,  # a credential that cannot be renewed at the moment
    errors.GoneError: RequestEnd.GONE,
    errors.TooNewError: RequestEnd.TOO_NEW,
    errors.InvalidError: RequestEnd.REFUSED,
}
_DEFAULT_TIMING: Final = WatchTiming()


class Informer(Generic[T]):
    """A local copy of the objects of one kind that follows the cluster while it runs."""

    def __init__(  # noqa: PLR0913 - a list request has these parameters
        self,
        cluster: ClusterClient,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        timing: WatchTiming = _DEFAULT_TIMING,
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
        self._reflector: Reflector[T] = Reflector(timing, self._random)
        self._handlers: list[Handler[T]] = []
        self._wakeups: set[asyncio.Event] = set()
        self._last_response: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self.last_error: errors.FairleadError | None = None
        """Why the last request failed; None after a successful one."""

    @property
    def objects(self) -> Mapping[Key, T]:
        """The objects by namespace and name: a read-only view that follows the cluster."""
        return self._reflector.objects

    @property
    def synced(self) -> bool:
        """Whether a complete list has arrived since the start."""
        return self._reflector.synced

    @property
    def age(self) -> float:
        """Seconds since the last response; about 60 is normal for a kind without changes."""
        return float("inf") if self._last_response is None else self._clock() - self._last_response

    def subscribe(self, handler: Handler[T]) -> None:
        """Call `handler` with every change, once and in order, after the copy has changed.

        Objects that are already known come at once, as added. A handler must not block. An exception of a
        handler ends the informer: a change that the handler missed cannot be repeated.
        """
        for item in tuple(self.objects.values()):
            handler(ObjectChange(None, item))
        self._handlers.append(handler)

    async def changes(self) -> AsyncGenerator[ObjectChange[T], None]:
        """Yield the changes, beginning with an addition for each known object.

        A reader that is slower than the cluster gets the latest state of each object instead of every state
        in between; it never misses a deletion.
        """
        queue: ChangeQueue[T] = ChangeQueue()
        wakeup = asyncio.Event()
        for item in self.objects.values():
            queue.put(ObjectChange(None, item))

        def enqueue(change: ObjectChange[T]) -> None:
            queue.put(change)
            wakeup.set()

        self._handlers.append(enqueue)
        self._wakeups.add(wakeup)
        try:
            while len(queue) or not self._stopped:
                if not len(queue):
                    await wakeup.wait()
                    wakeup.clear()
                while len(queue):
                    for change in queue.take():
                        yield change
        finally:
            self._handlers.remove(enqueue)
            self._wakeups.discard(wakeup)

    async def wait_for_sync(self) -> None:
        """Return when a complete list has arrived; raise the error that ended the informer before that."""
        wakeup = asyncio.Event()
        self._wakeups.add(wakeup)
        try:
            while not self.synced and not self._stopped:
                await wakeup.wait()
                wakeup.clear()
        finally:
            self._wakeups.discard(wakeup)
        if not self.synced and self._task is not None and self._task.done():
            self._task.result()
        if not self.synced:
            raise errors.ClusterError(
                f"the informer of {self._kind} ended before its first list was complete"
            )

    async def run(self) -> None:
        """Follow the cluster until cancelled.

        Before the first list, an error that a person must resolve (no access, no such API) is raised. After
        it, the copy stays and `last_error` says why it does not follow the cluster.
        """
        self._stopped = False
        try:
            while True:
                request = self._reflector.next_request()
                await asyncio.sleep(request.delay)
                await self._perform(request)
        finally:
            self._stopped = True
            self._wake_waiters()

    async def __aenter__(self) -> "Informer[T]":
        """Start to follow the cluster in a task of its own."""
        self._task = asyncio.create_task(self.run(), name=f"informer of {self._kind}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop; raise the error that ended the informer, unless the block itself raised one."""
        assert self._task is not None, "entered"
        while not self._task.done():  # before Python 3.11 a timeout that ends just now swallows the first
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_CANCELLED_AGAIN)
        if error is None:
            with suppress(asyncio.CancelledError):
                self._task.result()

    async def _perform(self, request: NextRequest) -> None:
        began, end = self._clock(), RequestEnd.CLOSED
        try:
            if request.kind == "list":
                return await self._list()
            await self._watch(request)
        except errors.FairleadError as error:
            end = self._end_of(error, began)
            if (
                not self.synced
                and error.exit_code == 2
                and (request.kind, end) != ("stream", RequestEnd.REFUSED)
            ):
                raise
            self.last_error = error
        return self._reflector.on_request_end(end, self._clock() - began)

    async def _list(self) -> None:
        listing = await self._cluster.list(
            self._kind, self._namespace, labels=self._labels, fields=self._fields
        )
        self._on_response()
        self._notify(self._reflector.on_list(listing.items, listing.resource_version))

    async def _watch(self, request: NextRequest) -> None:
        stream = self._cluster.watch(
            self._kind,
            self._namespace,
            resource_version=request.version,
            labels=self._labels,
            fields=self._fields,
            timeout=self._random.uniform(*self._timing.watch),
            idle=self._timing.idle_timeout,
            send_initial_events=request.kind == "stream",
            on_open=self._on_open,
        )
        async with aclosing(stream) as events:
            async for event in events:
                following = self._reflector.following
                self._on_event(event)
                if following and not self._reflector.following:
                    return  # the event contradicts the copy: list again

    def _on_open(self) -> None:
        if self._reflector.following:  # a kind without changes sends its first bookmark a minute later
            self.last_error = None

    def _on_event(self, event: WatchEvent[T]) -> None:
        self._on_response()
        if event.type == "BOOKMARK":
            version = event.object.metadata.resource_version
            self._notify(self._reflector.on_bookmark(version, complete=event.initial_end))
        else:
            self._notify(self._reflector.on_event(event.type, event.object))

    def _on_response(self) -> None:
        self._last_response = self._clock()
        self.last_error = None

    def _notify(self, changes: Iterable[ObjectChange[T]]) -> None:
        for change in changes:
            for handler in tuple(self._handlers):
                handler(change)
        if self.synced:
            self._wake_waiters()

    def _wake_waiters(self) -> None:
        for wakeup in self._wakeups:
            wakeup.set()

    def _end_of(self, error: errors.FairleadError, began: float) -> RequestEnd:
        end = next((end for kind, end in _END_BY_ERROR.items() if isinstance(error, kind)), RequestEnd.FAILED)
        # A connection that could not be opened in time failed; one that was open without a byte is dead.
        idle = min(self.age, self._clock() - began) >= 0.9 * self._timing.idle_timeout
        return RequestEnd.TIMED_OUT if idle and isinstance(error.__cause__, TIMEOUTS) else end
