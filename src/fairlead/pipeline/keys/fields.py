"""Values of keys as files write them: counts, times, and keys that are not known."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from fairlead.errors import PipelineError
from fairlead.units import Seconds, parse_duration

Refusal = Callable[[str, str], PipelineError]
"""Return the error for what is wrong, and what to do."""


def check_keys(entry: Mapping[str, Any], known: tuple[str, ...], what: str, refusal: Refusal) -> None:
    """Refuse a key that a mapping does not have."""
    for key in entry:
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise refusal(f"{what} has no key {key!r}", hint)


def read_seconds(entry: Mapping[str, Any], key: str, refusal: Refusal) -> Seconds | None:
    """Return a time with its unit; None: the key is not there."""
    if entry.get(key) is None:
        return None
    text = str(entry[key])
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise refusal(f"{key}: {error}", "") from None
    if text.strip()[-1].isdigit() and seconds:
        raise refusal(f"{key}: {text}: a time needs a unit", f"write {text}ms or {text}s")
    return seconds


def read_count(entry: Mapping[str, Any], key: str, default: int, most: int, refusal: Refusal) -> int:
    """Return a whole number from 1 to `most`."""
    value = entry.get(key, default)
    if type(value) is not int or not 1 <= value <= most:
        raise refusal(f"{key}: {value!r} is not a whole number from 1 to {most}", "")
    return value


def read_flag(entry: Mapping[str, Any], key: str, default: bool, refusal: Refusal) -> bool:
    """Return true or false."""
    value = entry.get(key, default)
    if not isinstance(value, bool):
        raise refusal(f"{key}: {value!r} is neither true nor false", "")
    return value
