"""The guard of an accelerator: what to do before an allocation fails, when measured use nears its memory.

The guard forecasts the use of every pod some samples ahead. Where the sum would not fit, elastic pods shrink
first, because no work is lost; then the pods of the lowest priority are evicted, among them those first that
hold more than they were placed for. Both take time: while one is under way the guard counts its result, so
that one event does not cost a second pod.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.units import Bytes, format_bytes

NONE: Final = Bytes(0)
REACTION: Final = 30.0
"""Seconds that use is forecast ahead: two sample periods, in which an action takes effect."""
NEAR: Final = 0.97
"""The part of the memory above which the guard acts: an allocator needs whole blocks, not a last byte."""
CLEAR: Final = 0.92
"""The part of the memory to which shrinks bring the forecast: the next sample must not ask for another."""
SHRINK_TIME: Final = 45.0
"""Seconds in which a shrink must show: three sample periods. Afterwards the pod counts with what it holds."""
EVICTION_TIME: Final = 60.0
"""Seconds in which an evicted pod must be gone: kubelet's 30 s of grace and two sample periods."""


@dataclass(frozen=True, slots=True)
class GuardedPod:
    """A pod with memory of the accelerator."""

    uid: str
    namespace: str
    name: str
    priority: int
    use: Bytes
    """What it holds now."""
    growth: float = 0.0
    """Bytes per second, over the last samples."""
    limit: Bytes | None = None
    """What its framework cannot exceed; None: nothing limits it."""
    least: Bytes | None = None
    """The least memory that it runs in; None: unknown."""
    elastic: bool = False
    """Its framework can give memory back while it runs."""
    evictable: bool = True
    progress: float = 0.0
    """Seconds of work that an eviction would lose."""
    expected: Bytes | None = None
    """The most that it is expected to hold; None: unknown."""
    placed: Bytes | None = None
    """What it was placed for; None: unknown."""

    @property
    def exceeds(self) -> bool:
        """Whether it holds more than its limit, or than it was placed for."""
        size = self.limit if self.limit is not None else self.placed
        return size is not None and self.use > size

    def ahead(self, seconds: float) -> float:
        """Return the bytes that the pod will hold after some seconds, if it goes on as now.

        A pod that starts grows fast, and stops where its like have stopped before: at what it is expected to
        hold. The growth of a pod that holds more than it was placed for counts as it is.
        """
        grown = self.use + max(0.0, self.growth) * seconds
        most = self.limit if self.limit is not None else None if self.exceeds else self.expected
        return grown if most is None else min(grown, max(most, self.use))


@dataclass(frozen=True, slots=True)
class GuardedDevice:
    """An accelerator and the pods on it."""

    memory: Bytes
    pods: tuple[GuardedPod, ...]
    foreign: Bytes = NONE
    """Memory that processes outside pods hold."""


@dataclass(frozen=True, slots=True)
class Shrink:
    """Hand a lower limit to the framework of an elastic pod."""

    pod_uid: str
    to: Bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a pod."""

    pod_uid: str
    reason: str


@dataclass(frozen=True, slots=True)
class GuardState:
    """Actions under way: the time of each, by the uid of the pod."""

    shrinks: Mapping[str, tuple[Bytes, float]] = field(default_factory=dict)
    """The size, and when it was asked for."""
    evictions: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """What to do now, in order, and what to remember until the next sample."""

    actions: tuple[Shrink | Evict, ...]
    state: GuardState
    forecast: Bytes
    """What will be held if every action takes effect."""
    missing: Bytes = NONE
    """What no action can free; zero: the forecast fits."""


def protect(device: GuardedDevice, state: GuardState, now: float, reaction: float = REACTION) -> GuardVerdict:
    """Return the actions that keep the forecast use of an accelerator within its memory."""
    present = {pod.uid: pod for pod in device.pods}
    shrinks = {
        uid: shrink for uid, shrink in state.shrinks.items() if _still_shrunk(present.get(uid), shrink)
    }
    evictions = {
        uid: at for uid, at in state.evictions.items() if uid in present and now - at < EVICTION_TIME
    }
    ahead = {pod.uid: _expected(pod, shrinks, evictions, now, reaction) for pod in device.pods}
    near = device.memory * NEAR - device.foreign
    before = sum(ahead.values())
    actions: list[Shrink | Evict] = []
    if before > near:
        why = _why(device, before, reaction)
        candidates = [pod for pod in device.pods if pod.uid not in shrinks and pod.uid not in evictions]
        actions += _shrink(candidates, ahead, device.memory * CLEAR - device.foreign, why)
        candidates = [pod for pod in device.pods if pod.uid not in evictions]
        actions += _evict(candidates, ahead, near, why)
    for action in actions:
        if isinstance(action, Shrink):
            shrinks[action.pod_uid] = (action.to, now)
        else:
            evictions[action.pod_uid] = now
            shrinks.pop(action.pod_uid, None)
    after = sum(ahead.values())
    missing = Bytes(max(0, round(after - near)))
    return GuardVerdict(
        tuple(actions), GuardState(shrinks, evictions), Bytes(round(after + device.foreign)), missing
    )


def _still_shrunk(pod: GuardedPod | None, shrink: tuple[Bytes, float]) -> bool:
    """Return whether a shrink is still to be remembered: its pod is there, and was given no larger limit."""
    return pod is not None and (pod.limit is None or pod.limit <= shrink[0] or pod.use > shrink[0])


def _expected(
    pod: GuardedPod,
    shrinks: Mapping[str, tuple[Bytes, float]],
    evictions: Mapping[str, float],
    now: float,
    reaction: float,
) -> float:
    if pod.uid in evictions:
        return 0.0
    ahead = pod.ahead(reaction)
    if pod.uid in shrinks:
        size, at = shrinks[pod.uid]
        if pod.use <= size or now - at < SHRINK_TIME:
            return min(ahead, size)
    return ahead


def _shrink(pods: Iterable[GuardedPod], ahead: dict[str, float], fits: float, why: str) -> list[Shrink]:
    """Shrink elastic pods, the largest excess over its least size first, until the forecast fits."""
    elastic = [
        (ahead[pod.uid] - pod.least, pod)
        for pod in pods
        if pod.elastic and pod.least is not None and pod.use > pod.least
    ]
    actions = []
    for excess, pod in sorted(elastic, key=lambda each: (-each[0], each[1].uid)):
        surplus = sum(ahead.values()) - fits
        if surplus <= 0:
            break
        size = Bytes(round(ahead[pod.uid] - min(excess, surplus)))
        ahead[pod.uid] = size
        actions.append(Shrink(pod.uid, size, f"{why}; the pod runs in {format_bytes(pod.least or 0)}"))
    return actions


def _evict(pods: Iterable[GuardedPod], ahead: dict[str, float], fits: float, why: str) -> list[Evict]:
    """Evict the lowest priority first, until the forecast fits.

    Among equals, a pod that holds more than it was placed for goes first, then one that loses little work.
    """
    actions = []
    order = sorted(
        pods, key=lambda each: (each.priority, not each.exceeds, each.progress, -ahead[each.uid], each.uid)
    )
    for pod in order:
        if sum(ahead.values()) <= fits:
            break
        if pod.evictable and ahead[pod.uid] > 0:
            ahead[pod.uid] = 0.0
            own = f"the pod has the lowest priority there ({pod.priority})"
            if pod.exceeds:
                own += f" and holds {format_bytes(pod.use)}, more than it was placed for"
            actions.append(Evict(pod.uid, f"{why}; {own}"))
    return actions


def _why(device: GuardedDevice, ahead: float, reaction: float) -> str:
    held, memory = format_bytes(round(ahead + device.foreign)), format_bytes(device.memory)
    return f"the pods of an accelerator with {memory} will hold {held} within {reaction:.0f} s"
