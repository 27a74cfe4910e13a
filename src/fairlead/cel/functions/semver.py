"""Semantic versions 2.0.0, ordered by precedence, as the Go library that Kubernetes uses reads them."""

import re
from dataclasses import dataclass
from typing import Final

_NUMBER: Final = r"(0|[1-9][0-9]*)"
_WORD: Final = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_BUILD: Final = r"[0-9A-Za-z-]+"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_WORD}(?:\.{_WORD})*))?(?:\+({_BUILD}(?:\.{_BUILD})*))?"
)
_LARGEST: Final = 2**64 - 1
_LONGEST: Final = 256
"""The most characters of a version."""


@dataclass(frozen=True, slots=True)
class SemanticVersion:
    """A semantic version."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()
    """The identifiers of the pre-release: `("rc", "1")` of `1.2.3-rc.1`."""
    build: tuple[str, ...] = ()
    """The build metadata; it has no part in the order."""

    @classmethod
    def parse(cls, text: str) -> "SemanticVersion":
        """Read a version; ValueError for an invalid one."""
        match = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
        if match is None:
            raise ValueError(_fault(text[:_LONGEST]))
        numbers = (int(match[1]), int(match[2]), int(match[3]))
        pre = tuple(match[4].split(".")) if match[4] else ()
        if any(
            number > _LARGEST
            for number in (*numbers, *(int(identifier) for identifier in pre if identifier.isdecimal()))
        ):
            raise ValueError(f"{text[:64]!r} has a number above 64 bits")
        return cls(*numbers, pre, tuple(match[5].split(".")) if match[5] else ())

    def compare(self, other: "SemanticVersion") -> int:
        """Return -1, 0 or 1: the order of precedence."""
        mine, theirs = (self.major, self.minor, self.patch), (other.major, other.minor, other.patch)
        if mine != theirs:
            return -1 if mine < theirs else 1
        if not self.pre or not other.pre:
            return bool(other.pre) - bool(self.pre) if self.pre != other.pre else 0
        left, right = (
            [_rank(identifier) for identifier in self.pre],
            [_rank(identifier) for identifier in other.pre],
        )
        return (left > right) - (left < right)

    def __str__(self) -> str:
        pre = f"-{'.'.join(self.pre)}" if self.pre else ""
        build = f"+{'.'.join(self.build)}" if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}{build}"


def _rank(word: str) -> tuple[int, int, str]:
    return (0, int(word), "") if word.isdecimal() else (1, 0, word)


def _fault(text: str) -> str:
    """Return the fault of an invalid version, in the words of the Go library."""
    if not text:
        return "Version string empty"
    parts = text.split(".", 2)
    if len(parts) != 3:
        return "No Major.Minor.Patch elements found"
    for name, part in zip(("major", "minor"), parts, strict=False):
        if not (part.isascii() and part.isdecimal()):
            return f'Invalid character(s) found in {name} number "{part}"'
        if len(part) > 1 and part.startswith("0"):
            return f'{name.capitalize()} number must not contain leading zeroes "{part}"'
    return f'Invalid character(s) found in patch number "{parts[2]}"'
