"""Find names of a table in a description, word by word."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

_WORD: Final = re.compile(r"[a-z0-9][a-z0-9.+]*")
_MARKS: Final = re.compile(r"\((?:r|tm)\)")
_GLUED: Final = re.compile(r"\b(kryo|kyro|rtx|gtx|visionfive)(?=[0-9])")
_PART: Final = 6
"""A part number with at least this number of letters also names its variants: `stm32h7`, `stm32h747i`."""
_MAKERS: Final = frozenset(("nvidia", "intel", "amd", "geforce", "google", "tesla", "xilinx", "npu", "arm"))
_UNITS: Final = {
    **{"cpu": "cpu", "gpu": "gpu", "igpu": "gpu", "dgpu": "gpu", "npu": "npu", "htp": "npu", "dsp": "npu"},
    **{"tpu": "npu", "neural engine": "npu", "ane": "npu"},
}
_UNIT: Final = f"({'|'.join(_UNITS)})"
_IN_BRACKETS: Final = re.compile(rf"[\[(]\s*{_UNIT}(?:[ -]only)?\s*[\])]")
_ONLY: Final = re.compile(rf"\b{_UNIT}[ -]only\b")
_BRACKETS: Final = re.compile(r"\[[^\]]*\]|\([^)]*\)")
_LAST: Final = re.compile(rf"[ /:,-]{_UNIT}\s*$")
_FILLER: Final = re.compile(r"dev|developer|devkit|kit|module|series|board|sbc|som|[0-9]{1,3}gb?|super")
"""Words between those of a name that change nothing."""
_SMALL: Final = re.compile(r"[0-9]{1,2}")
Name = tuple[str, ...]
T = TypeVar("T")


def normalise(text: str) -> str:
    """Return a description in lower case, without the marks of trade names."""
    return _GLUED.sub(r"\1 ", _MARKS.sub(" ", text.lower()))


def split_words(text: str) -> list[str]:
    """Return the words of a description: `Cortex-A72` is `cortex` and `a72`."""
    spaced = normalise(text).replace("-", " ").replace("_", " ")
    return [word.strip(".") for word in _WORD.findall(spaced)]


def words_without_maker(text: str) -> Name:
    """Return the words of a name without its maker."""
    return tuple(word for word in split_words(text) if word not in _MAKERS)


def is_specific(name: Sequence[str]) -> bool:
    """Say whether a name is more than a common word."""
    return len(name) > 1 or any(letter.isdigit() for word in name for letter in word)


def unit_of(text: str) -> str:
    """Return the unit of a chip that a description says computes: `cpu`, `gpu` or `npu`; empty: it does not.

    `[CPU]`, `(GPU only)`, `NPU-only`, or the last word beside what is in brackets. `[CPU: Cortex-A72]` and
    `CPU + Coral USB` describe the parts of a machine.
    """
    low = normalise(text)
    last = None if "+" in low else _LAST.search(_BRACKETS.sub(" ", low))
    match = _IN_BRACKETS.search(low) or _ONLY.search(low) or last
    return _UNITS[match[1]] if match else ""


def longest_name(words: Sequence[str], table: Mapping[Name, T]) -> Name | None:
    """Return the longest name whose words a description contains; of two as long, the one in order.

    Words may stand in another order (`Jetson Nano Orin`), and words such as `developer kit` between them.
    """
    plain = [word for word in words if not _FILLER.fullmatch(word)]
    names = {name: True for name in table if any(map(partial(_begin_with, name), _tails(words)))}
    others = (name for name in table if name not in names)
    names |= {name: False for name in others if _contains(words, name) or _contains(plain, name)}
    return max(names, key=lambda name: (len(name), names[name], sum(map(len, name))), default=None)


def look_up(words: Sequence[str], table: Mapping[Name, T]) -> T | None:
    """Return the entry of a table under the longest name."""
    name = longest_name(words, table)
    return None if name is None else table[name]


def look_up_nearly(words: Sequence[str], table: Mapping[Name, T]) -> T | None:
    """Return the entry of which a description has two words or more, and all but one word without digits."""
    present = set(words)
    matches = {
        name: len(present & set(name))
        for name in table
        if len(missing := set(name) - present) == 1
        and not any(letter.isdigit() for word in missing for letter in word)
        and len(present & set(name)) >= 2
    }
    return table[max(matches, key=lambda name: (matches[name], name))] if matches else None


def _contains(words: Sequence[str], name: Name) -> bool:
    """Say whether the words of a name stand side by side in any order.

    Not where one of them is a small number: `2 core` is a number of cores, `Core 2` a processor.
    """
    if len(name) < 2 or any(_SMALL.fullmatch(word) for word in name):
        return False
    wanted, size = sorted(name), len(name)
    return any(sorted(words[at : at + size]) == wanted for at in range(len(words) - size + 1))


def _tails(words: Sequence[str]) -> list[Sequence[str]]:
    return [words[at:] for at in range(len(words))]


def _begin_with(name: Name, words: Sequence[str]) -> bool:
    """Say whether words begin with a name; a single part number also matches its variants."""
    if len(name) == 1 and len(name[0]) >= _PART and is_specific(name):
        return words[0].startswith(name[0])
    return tuple(words[: len(name)]) == name
