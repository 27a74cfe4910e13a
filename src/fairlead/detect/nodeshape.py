"""What an unlisted device-tree node looks like: an accelerator, or a part around one."""

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import translate
from functools import cache
from typing import Final

from fairlead.catalog.device import UnlistedShape

_WORD: Final = re.compile(r"[a-z]+")


def shape_of(name: str, compatible: Sequence[str], shapes: Iterable[UnlistedShape]) -> UnlistedShape | None:
    """Return the rule by which an unlisted node looks like an accelerator; None if a decoy rule matches."""
    rules = [shape for shape in shapes if shape.node]
    entries = [entry.lower() for entry in compatible]
    words = list(_words(name, entries))
    shape = next((rule for rule in rules if not rule.decoy and _fits(rule, entries, words)), None)
    if shape is None or any(rule.decoy and _fits(rule, entries, words) for rule in rules):
        return None
    return shape


def _words(name: str, entries: Sequence[str]) -> Iterator[str]:
    """Yield the runs of letters; the vendor is left out, because it does not say what the device is."""
    for text in (name.lower(), *(entry.partition(",")[2] for entry in entries)):
        yield from _WORD.findall(text)


def _fits(shape: UnlistedShape, entries: Sequence[str], words: Sequence[str]) -> bool:
    pattern = _pattern(shape.node)
    return any(pattern.match(text) for text in (*entries, *words))


@cache
def _pattern(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(translate(glob) for glob in globs))
