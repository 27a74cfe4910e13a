"""The key `canary` of a stage, as files write it."""

from collections.abc import Mapping
from typing import Any, Final

from fairlead.pipeline.keys.fields import Refusal, check_keys, read_count
from fairlead.pipeline.spec import CanarySpec

MOST_PERCENT: Final = 50
_HINT: Final = "write canary: {host: NAME, percent: 10}"


def read_canary(value: Any, refusal: Refusal) -> CanarySpec | None:
    """Return the canary that a value states; None: there is none. PipelineError."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise refusal(f"canary: {value!r} is not a mapping", _HINT)
    check_keys(value, ("host", "percent"), "a canary", refusal)
    host = value.get("host")
    if not isinstance(host, str) or "percent" not in value:
        raise refusal("a canary needs a host and a percent", _HINT)
    return CanarySpec(host, read_count(value, "percent", 1, MOST_PERCENT, refusal))
