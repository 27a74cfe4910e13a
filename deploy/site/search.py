"""The search index: which page has which word; small enough to be loaded by the first search."""

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from deploy.site.markdown import RenderedPage
from deploy.site.pages import SECTIONS, SourcePage

_WORDS: Final = re.compile(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*")
_PARTS: Final = re.compile(r"[a-z0-9]+")
_LONGEST: Final = 32
_COMMON: Final = frozenset(
    re.findall(
        r"\w+",
        "the a an and or of to in is it for on that with as by from at be are this its not no which one has "
        "have if so than then where when each other was can may only all also but they them what who how",
    )
)


def words_of(text: str) -> set[str]:
    """Return the words of a text in lower case: whole, such as `gpu-mem`, and their parts."""
    lower = text.lower()
    found = set(_WORDS.findall(lower)) | set(_PARTS.findall(lower))
    return {word for word in found - _COMMON if 1 < len(word) <= _LONGEST}


def index_of(pages: Iterable[tuple[SourcePage, RenderedPage]]) -> dict[str, Any]:
    """Return the index: pages with their headings, and by word the numbers of pages, as differences."""
    entries, found = [], dict[str, list[int]]()
    for number, (page, rendered) in enumerate(pages):
        headings = [[each.text, each.anchor] for each in rendered.headings if each.level > 1]
        entries.append([page.target, page.title, SECTIONS.get(page.section, ""), headings])
        for word in words_of(f"{page.title} {rendered.text}"):
            found.setdefault(word, []).append(number)
    return {"pages": entries, "words": {word: _differences(found[word]) for word in sorted(found)}}


def _differences(numbers: list[int]) -> list[int]:
    return [number - before for number, before in zip(numbers, [0, *numbers], strict=False)]


def script_of(index: dict[str, Any]) -> str:
    """Return the index as a script: pages that are opened as files cannot fetch one."""
    text = json.dumps(index, separators=(",", ":"), ensure_ascii=True)
    return f"window.fairleadIndex={text};\n"
