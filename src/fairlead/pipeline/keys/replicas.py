"""The key `replicas` of a stage, as files and Python write it: a number, or bounds of a number."""

from collections.abc import Mapping
from typing import Any, Final

from fairlead.pipeline.keys.fields import Refusal, check_keys, read_count, read_seconds
from fairlead.pipeline.spec import ReplicaScale
from fairlead.units import Seconds

MOST_REPLICAS: Final = 64
_KEYS: Final = ("min", "max", "age", "up_after", "down_after")
_HINT: Final = "write replicas: 2, or replicas: {min: 1, max: 4}"


def read_replicas(value: Any, refusal: Refusal) -> tuple[int, ReplicaScale | None]:
    """Return the replicas that a stage begins with, and the bounds of their number; PipelineError."""
    if isinstance(value, ReplicaScale):
        return value.least, value
    if not isinstance(value, Mapping):
        if type(value) is not int or not 1 <= value <= MOST_REPLICAS:
            raise refusal(f"replicas: {value!r} is not a whole number from 1 to {MOST_REPLICAS}", _HINT)
        return value, None
    check_keys(value, _KEYS, "replicas", refusal)
    least = read_count(value, "min", 1, MOST_REPLICAS, refusal)
    if "max" not in value:
        raise refusal("replicas that follow the load need a max", _HINT)
    most = read_count(value, "max", 1, MOST_REPLICAS, refusal)
    if most < least:
        raise refusal(f"replicas: max {most} is below min {least}", f"write max: {least} or more")
    known = ReplicaScale(least, most)
    age = _seconds(value, "age", known.age, refusal)
    up_after = _seconds(value, "up_after", known.up_after, refusal)
    return least, ReplicaScale(
        least, most, age, up_after, _seconds(value, "down_after", known.down_after, refusal)
    )


def _seconds(entry: Mapping[str, Any], key: str, default: Seconds, refusal: Refusal) -> Seconds:
    seconds = read_seconds(entry, key, refusal)
    if seconds is None:
        return default
    if not seconds > 0:
        raise refusal(f"replicas: {key}: {entry[key]}: a time above 0 is needed", f"write {key}: 30s")
    return seconds
