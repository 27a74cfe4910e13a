"""Regular expressions by RE2, as in Go: the time grows with the string alone, whatever a tenant writes."""

from functools import lru_cache
from typing import Any, Final

from fairlead.cel.errors import EvaluationError
from fairlead.cel.functions.table import Overload, overload
from fairlead.errors import MissingPartError

_MEMORY: Final = 8 << 20
"""The most bytes of one compiled pattern, RE2's own default: a larger one is rejected."""


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Any:
    """Return a compiled pattern; ValueError for an invalid one."""
    try:
        import re2  # type: ignore[import-untyped]  # noqa: PLC0415  # untyped; needed by patterns alone
    except ImportError as error:
        raise MissingPartError("regular expressions in selectors need google-re2") from error
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        message = error.args[0] if error.args else ""
        raise ValueError(
            message.decode(errors="replace") if isinstance(message, bytes) else str(message)
        ) from None


def _compiled(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except ValueError as error:
        raise EvaluationError(f"error parsing regexp: {error}") from None


def matches(text: str, pattern: str) -> bool:
    """Return whether a pattern matches anywhere in a string."""
    return _compiled(pattern).search(text) is not None


def _find(text: str, pattern: str) -> str:
    match = _compiled(pattern).search(text)
    return "" if match is None else str(match[0])


def _find_all(text: str, pattern: str, most: int = -1) -> tuple[str, ...]:
    matches_: list[str] = []
    for match in _compiled(pattern).finditer(text):
        if len(matches_) == most:
            break
        matches_.append(match[0])
    return tuple(matches_)


def pattern_cost(text: str, pattern: str, _most: int = 0) -> int:
    """Return the cost of a search: the length of the string times that of the pattern."""
    return -(-(1 + len(text)) // 10) * -(-len(pattern) // 4)


OVERLOADS: Final[list[Overload]] = [
    overload(".string.find(string) string", _find, pattern_cost),
    overload(".string.findAll(string) list(string)", _find_all, pattern_cost),
    overload(".string.findAll(string,int) list(string)", _find_all, pattern_cost),
]
