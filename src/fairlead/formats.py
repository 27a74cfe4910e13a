"""Formats that outlive the process that wrote them: each text carries its version.

A program reads every version in a format's table, and writes the newest. A text of another version comes from
a newer program: decoding it raises `NewerFormatError`, and the reader steps aside instead of guessing. A
replica does not lead, a node with such a text takes no pods, an agent refuses to allocate; each says why.
"""

import json
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from fairlead.errors import NewerFormatError

T = TypeVar("T")
_VERSION: Final = "version"
_BAD: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


# Plain classes: every command imports this module, and a dataclass costs a millisecond to define.


class Codec(Generic[T]):
    """One version of a format: a value to the body of a text, and back."""

    __slots__ = ("decode", "encode")

    def __init__(self, encode: Callable[[T], Any], decode: Callable[[Any], T]) -> None:
        self.encode = encode
        self.decode = decode
        """Raises ValueError, TypeError, KeyError or AttributeError where the body is not of this version."""


class Envelope:
    """How a text carries its version beside the body; `start` is how the texts of a version begin."""

    __slots__ = ("pack", "start", "unpack")

    def __init__(
        self,
        pack: Callable[[int, Any], str],
        unpack: Callable[[str], tuple[int, Any]],
        start: Callable[[int], str],
    ) -> None:
        self.pack = pack
        self.unpack = unpack
        self.start = start


class VersionedFormat(Generic[T]):
    """A format: its name in messages, its envelope, and the table of the versions that this program reads."""

    __slots__ = ("codecs", "envelope", "name")

    def __init__(self, name: str, envelope: Envelope, codecs: dict[int, Codec[T]]) -> None:
        self.name = name
        self.envelope = envelope
        self.codecs = codecs

    @property
    def newest(self) -> int:
        """The version that this program writes."""
        return max(self.codecs)

    def encode(self, value: T) -> str:
        """Return the text of a value, in the newest version."""
        version = self.newest
        return self.envelope.pack(version, self.codecs[version].encode(value))

    def decode(self, text: str) -> T:
        """Return the value of a text; ValueError where no program of ours wrote it."""
        try:
            version, body = self.envelope.unpack(text)
            if version not in self.codecs:
                raise NewerFormatError(self.name, version, self.newest)
            return self.codecs[version].decode(body)
        except _BAD as error:
            raise ValueError(f"no {self.name}: {error}") from None

    def decode_exactly(self, text: str) -> T:
        """Return the value of a text; ValueError also where another client has changed as much as a space."""
        value = self.decode(text)
        version, _ = self.envelope.unpack(text)
        if self.envelope.pack(version, self.codecs[version].encode(value)) != text:
            raise ValueError(f"no {self.name}: another client has changed the text")
        return value

    def newer(self, text: str) -> NewerFormatError | None:
        """Return the error of a text that a newer program wrote; None for every other text."""
        if text.startswith(self.envelope.start(self.newest)):
            return None  # there are as many texts as pods: most need no parsing
        try:
            version, _ = self.envelope.unpack(text)
        except _BAD:
            return None
        return NewerFormatError(self.name, version, self.newest) if version not in self.codecs else None


def _pack_json(version: int, body: Any) -> str:
    return json.dumps({_VERSION: version, **body}, separators=(",", ":"))


def _unpack_json(text: str) -> tuple[int, Any]:
    document = json.loads(text)
    version = document[_VERSION]
    if type(version) is not int or version < 1:
        raise ValueError(f"{version!r} is not a version")
    return version, document


def _pack_words(version: int, body: Any) -> str:
    return f"v{version} {body}"


def _unpack_words(text: str) -> tuple[int, Any]:
    mark, _, body = text.partition(" ")
    number = mark.removeprefix("v")
    if not mark.startswith("v") or not number.isdecimal() or len(number) > 6 or int(number) < 1:
        raise ValueError(f"{mark!r} is not a version")
    return int(number), body


JSON: Final = Envelope(_pack_json, _unpack_json, lambda version: f'{{"{_VERSION}":{version},')
"""`{"version":1,...}`: the body is the other fields."""
WORDS: Final = Envelope(_pack_words, _unpack_words, lambda version: f"v{version} ")
"""`v1 ...`: the body is the rest of the text."""
