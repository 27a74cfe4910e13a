"""Requests to the API server as flows: sent once, until answered, or until an object is fenced. Pure."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from fairlead.cache.types import PODS, LiveClaim, LivePod
from fairlead.cluster.http import codec
from fairlead.cluster.meta import Object
from fairlead.cluster.watch.changes import Key
from fairlead.errors import (
    ClusterError,
    ClusterUnavailableError,
    ConflictError,
    NotFoundError,
    TooLargeError,
    TooManyRequestsError,
)
from fairlead.serve.machine.flow import Flow, Sleep, Together
from fairlead.serve.machine.requests import ApiRequest, Get
from fairlead.serve.scheduler.bind import writes

UNAVAILABLE: Final = (ClusterUnavailableError, TooManyRequestsError)
"""Errors after which the same request may succeed; after the first, it may already have taken effect."""
_PAUSE: Final = 1.0
"""Seconds between retries of a request whose answer was lost."""
S = TypeVar("S", bound=Object)
T = TypeVar("T")


def decode(shape: type[S], data: bytes) -> S:
    """Return the body of a response as an object of this type."""
    return codec.decode_as(shape, data, shape.__name__)


def send_once(request: ApiRequest) -> Flow[bool]:
    """Send a request whose outcome is not worth a retry; say whether it succeeded."""
    try:
        yield request
    except ClusterError:
        return False
    return True


def send_with_retry(request: ApiRequest) -> Flow[bytes | None]:
    """Send a request until it is answered; None where the answer is an error."""
    while True:
        try:
            answer: bytes = yield request
        except UNAVAILABLE:
            yield Sleep(_PAUSE)
        except ClusterError:
            return None
        else:
            return answer


def get_pod(pod: LivePod) -> Flow[LivePod | None]:
    """Get a pod; None where it is deleted."""
    answer = yield from send_with_retry(Get("GET", PODS.path(pod.metadata.namespace, pod.metadata.name)))
    return None if answer is None else decode(LivePod, answer)


def gather(flows: Sequence[Flow[T]]) -> Flow[list[T]]:
    """Run flows at the same time, and return their results; a single flow runs directly."""
    if len(flows) == 1:
        return [(yield from flows[0])]
    results: list[T] = yield Together(tuple(flows))
    return results


class Fences:
    """Changes objects so that late writes of the previous leader fail."""

    def __init__(self, log: Callable[[str], None], nonce: Callable[[], str]) -> None:
        self._log = log
        self._nonce = nonce

    def fence_claim(self, claim: Key, epoch: int) -> Flow[LiveClaim | None]:
        """Fence a claim, and return it as it is now; None where it is deleted."""
        mark, smaller = writes.fence_claim(*claim, epoch, self._nonce()), writes.unmark_claim(*claim)
        answer = yield from self.fence(mark, smaller)
        return None if answer is None else decode(LiveClaim, answer)

    def fence_pod(self, pod: LivePod, epoch: int) -> Flow[LivePod | None]:
        """Fence a pod, and return it as it is now; None where it is deleted."""
        answer = yield from self.fence(writes.fence_pod(pod, epoch, self._nonce()), writes.shorten_pod(pod))
        return None if answer is None else decode(LivePod, answer)

    def fence(self, request: ApiRequest, smaller: ApiRequest | None = None) -> Flow[bytes | None]:
        """Send the request until it succeeds or the object is deleted; until then a late write could succeed.

        Where an object is too large for a mark, `smaller` changes it by making it smaller. Where that fails
        too, the object is skipped: one tenant's object must not keep the scheduler from all others.
        """
        logged = ""
        while True:
            try:
                answer: bytes = yield request
            except NotFoundError:
                return None
            except ConflictError:
                if not (yield from self._is_same(request)):
                    return None
            except TooLargeError as error:
                if smaller is None:
                    self._log(f"not fenced: {error}")
                    return None
                request, smaller = smaller, None
            except ClusterError as error:
                if not isinstance(error, UNAVAILABLE) and str(error) != logged:
                    logged = str(error)
                    self._log(f"cannot fence, retrying: {logged}")
                yield Sleep(_PAUSE)
            else:
                return answer

    def _is_same(self, request: ApiRequest) -> Flow[bool]:
        """Say whether the object that a request names still exists; a new one may have its name now."""
        uid = request.body["metadata"].get("uid", "")
        now = yield from send_with_retry(Get("GET", request.path.removesuffix("/status")))
        return now is not None and (not uid or decode(LivePod, now).metadata.uid == uid)
