"""Options of sources and sinks: which there are, of which kind, and what is wrong with those of a stage."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

from fairlead.units import QuantityError, parse_duration


@dataclass(frozen=True, slots=True)
class OptionRule:
    """One option of a source or a sink."""

    what: str
    """What the value is, for messages: `a whole number from 1 on`."""
    fits: Callable[[Any], bool]
    required: bool = False
    secret: bool = False
    """The value may hold a password: messages leave it out."""


def objections(options: Mapping[str, Any], rules: Mapping[str, OptionRule]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with each option, and what to do."""
    for name, value in options.items():
        rule = rules.get(name)
        if rule is None:
            near = get_close_matches(name, rules, 1)
            known = f"did you mean {near[0]}?" if near else f"known: {', '.join(rules) or 'none'}"
            yield f"unknown option {name!r}", known
        elif not rule.fits(value):
            shown = "the value" if rule.secret else repr(value)
            yield f"option {name}: {shown} is not {rule.what}", f"write {rule.what}"
    for name, rule in rules.items():
        if rule.required and name not in options:
            yield f"option {name} is missing", f"add {name}: {rule.what}"


def is_count(value: Any) -> bool:
    """Return whether a value is a whole number from 1 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def is_rate(value: Any) -> bool:
    """Return whether a value is a number of frames per second."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e6


def is_text(value: Any) -> bool:
    """Return whether a value is a text that is not empty."""
    return isinstance(value, str) and bool(value)


def is_index(value: Any) -> bool:
    """Return whether a value is a whole number from 0 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_duration(value: Any) -> bool:
    """Return whether a value is a duration above 0 with its unit."""
    try:
        return isinstance(value, str) and not value.strip()[-1:].isdigit() and parse_duration(value) > 0
    except QuantityError:
        return False


def is_headers(value: Any) -> bool:
    """Return whether a value is a mapping of printable texts."""
    return isinstance(value, dict) and all(
        isinstance(text, str) and text.isprintable() for pair in value.items() for text in pair
    )


def is_key(value: Any) -> bool:
    """Return whether a value can begin a key in a header."""
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9._-]{1,64}", value) is not None


def is_shape(value: Any) -> bool:
    """Return whether a value is a list of one to eight sizes."""
    return isinstance(value, list | tuple) and 1 <= len(value) <= 8 and all(is_count(size) for size in value)


COUNT = OptionRule("a whole number from 1 on", is_count)
RATE = OptionRule("a number of frames per second above 0", is_rate)
SHAPE = OptionRule("a list of sizes, for example [720, 1280, 3]", is_shape)
PATH = OptionRule("a path", is_text, required=True)
FUNCTION = OptionRule("module:function or file.py:function", is_text, required=True)
ARGUMENTS = OptionRule("a mapping of arguments", lambda value: isinstance(value, dict))
FLAG = OptionRule("true or false", lambda value: isinstance(value, bool))
QUALITY = OptionRule("a whole number from 1 to 100", lambda value: is_count(value) and value <= 100)
INDEX = OptionRule("a whole number from 0 on", is_index)
DURATION = OptionRule("a duration with its unit, for example 200ms", is_duration)


def one_of(*choices: str, required: bool = False) -> OptionRule:
    """Return the rule of an option that has one of a few values."""
    return OptionRule(f"one of {', '.join(choices)}", lambda value: value in choices, required)


def address(schemes: tuple[str, ...], example: str) -> OptionRule:
    """Return the rule of an address, which may hold a password."""

    def fits(value: Any) -> bool:
        try:
            parts = urlsplit(value) if isinstance(value, str) else None
            return parts is not None and parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
        except ValueError:
            return False

    return OptionRule(f"an address, for example {example}", fits, required=True, secret=True)


RTSP_URL = address(("rtsp", "rtsps"), "rtsp://camera.local/stream")
HTTP_URL = address(("http", "https"), "https://host/frames")
CERTIFICATES = OptionRule("the path of a file with certificates", is_text)
HEADERS = OptionRule("a mapping of texts", is_headers, secret=True)
KEY = OptionRule("letters, digits, '-', '_' and '.'", is_key)
