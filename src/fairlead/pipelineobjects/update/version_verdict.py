"""Whether a canary is worse than the version beside it: what both have counted in the same time. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairlead.units import pluralize

_LEAST_TAKEN: Final = 0.8
"""The part of its share that a version must take: less, and it is too slow for it."""
_SLOWER: Final = 1.25
"""Times that a frame may take in the new version as long as in the old one."""
_NOISE_S: Final = 0.001
_NOISE: Final = 5
"""Frames by which two counts may differ by chance, and below which nothing is said of times."""
_CRASHES: Final = 2
Stage = Mapping[str, Any]
Warm = Mapping[str, Any]
"""By stage and version: what was counted before times count."""
_COLD: Final[Warm] = {}


@dataclass(frozen=True, slots=True)
class VersionCounts:
    """What the processes of one version of a stage have counted since they began."""

    percent: int
    taken: int
    failed: int
    restarts: int
    seconds: float
    warm_taken: int = 0
    """Of them, those before its times count."""
    warm_seconds: float = 0.0

    @property
    def timed(self) -> int:
        """Frames whose time counts."""
        return self.taken - self.warm_taken

    @property
    def mean(self) -> float:
        """Seconds of one frame."""
        return (self.seconds - self.warm_seconds) / self.timed if self.timed > 0 else 0.0


def compare_versions(stages: Sequence[Stage], warm: Warm) -> str:
    """Return by what new versions are worse than the old ones; empty: by nothing."""
    return find_crashes(stages) or next(filter(None, (_slower(each, warm) for each in stages)), "")


def warm_counts(stages: Sequence[Stage]) -> Warm | None:
    """Return what both versions have counted; None: a new one has not taken its first frames yet.

    The first calls of a process may be slow, and count more where frames are few.
    """
    if any(new.taken <= _NOISE for _, new in map(_versions, stages)):
        return None
    return {
        stage["name"]: {
            version["version"]: {key: version[key] for key in ("in", "process_s")}
            for version in stage["versions"]
        }
        for stage in stages
    }


def find_crashes(stages: Sequence[Stage]) -> str:
    """Return by what new versions fail, which needs no more time to be seen; empty: nothing."""
    return next(filter(None, map(_failing, stages)), "")


def describe_versions(stages: Sequence[Stage], warm: Warm) -> str:
    """Return what both versions of stages did."""
    return "; ".join(_described(each, warm) for each in stages)


def _described(stage: Stage, warm: Warm) -> str:
    old, new = _versions(stage, warm)
    times = f"{_ms(new.mean)} a frame in the new version, {_ms(old.mean)} in the old one"
    return (
        f"{stage['name']}: {times}; {new.taken} and {old.taken} frames, {new.failed} and {old.failed} failed"
    )


def _failing(stage: Stage) -> str:
    old, new = _versions(stage)
    if new.restarts >= _CRASHES + old.restarts:
        return f"{pluralize(new.restarts, 'crash', 'crashes')} of the new version of {stage['name']}"
    share = new.taken / old.taken if old.taken else 0.0
    if new.failed > _NOISE + 2 * share * old.failed:
        return f"the new version of {stage['name']} failed with {pluralize(new.failed, 'frame')}"
    return ""


def _slower(stage: Stage, warm: Warm) -> str:
    old, new = _versions(stage, warm)
    offered = old.taken * new.percent / old.percent
    if new.taken < _LEAST_TAKEN * offered - _NOISE:
        return f"the new version of {stage['name']} took {new.taken} of {offered:.0f} frames of its share"
    if new.timed > _NOISE and new.mean > _SLOWER * old.mean + _NOISE_S:
        times = f"{_ms(new.mean)} a frame in the new version, {_ms(old.mean)} in the old one"
        return f"{stage['name']} takes {times}"
    return ""


def _versions(stage: Stage, warm: Warm = _COLD) -> Iterator[VersionCounts]:
    """Yield the counts of the old version and of the new one; nothing is known of a run that says nothing."""
    known = {each.get("version"): each for each in stage.get("versions") or ()}
    before = warm.get(stage["name"]) or {}
    for name, percent in (("stable", 99), ("canary", 1)):
        body = known.get(name) or {}
        first = before.get(name) or {}
        if int(first.get("in") or 0) > int(body.get("in") or 0):  # its processes began again
            first = {}
        yield VersionCounts(
            int(body.get("percent") or percent),
            int(body.get("in") or 0),
            int(body.get("failed") or 0),
            int(body.get("restarts") or 0),
            float(body.get("process_s") or 0.0),
            int(first.get("in") or 0),
            float(first.get("process_s") or 0.0),
        )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
