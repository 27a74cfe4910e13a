"""Conditions on devices in the Common Expression Language, as far as people write them in claims.

Equality and membership of attributes, joined by `&&`. What is not understood is refused: a condition that is
passed over would put a pod where it may not be.
"""

import re
from dataclasses import dataclass
from typing import Final

from fairlead.errors import ManifestError

_ATTRIBUTE: Final = r'device\.attributes\["(?P<domain>[^"]+)"\](?:\.(?P<dot>\w+)|\["(?P<name>[^"]+)"\])'
_EQUAL: Final = re.compile(_ATTRIBUTE + r"""\s*==\s*(?P<value>"[^"]*"|'[^']*'|true|false|[0-9]+)""")
_ONE_OF: Final = re.compile(_ATTRIBUTE + r"\s+in\s+\[(?P<values>[^\]]*)\]")
_DRIVER: Final = re.compile(r"""device\.driver\s*==\s*["'](?P<driver>[^"']+)["']""")
_EXISTS: Final = re.compile(r'"(?P<domain>[^"]+)"\s+in\s+device\.attributes')
_HINT: Final = 'write it like device.attributes["fairlead.dev"].model in ["t4", "a100"], joined by &&'


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an expression asks of a device."""

    drivers: tuple[str, ...] = ()
    attributes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """An attribute's name without its domain, and the values of which it must have one."""


def parse(where: str, expression: str) -> Wanted:
    """Read an expression."""
    drivers: list[str] = []
    attributes: list[tuple[str, tuple[str, ...]]] = []
    for part in _parts(expression):
        if found := _DRIVER.fullmatch(part):
            drivers.append(found["driver"])
        elif found := _EQUAL.fullmatch(part):
            attributes.append((found["dot"] or found["name"], (found["value"].strip("\"'"),)))
        elif found := _ONE_OF.fullmatch(part):
            values = tuple(each.strip().strip("\"'") for each in found["values"].split(",") if each.strip())
            attributes.append((found["dot"] or found["name"], values))
        elif not _EXISTS.fullmatch(part):
            raise ManifestError(f"{where}: the expression {part!r} is not understood", _HINT)
    return Wanted(tuple(drivers), tuple(attributes))


def _parts(expression: str) -> list[str]:
    bare = " ".join(expression.split())
    while bare.startswith("(") and bare.endswith(")") and "(" not in bare[1:]:
        bare = bare[1:-1].strip()
    return [part.strip() for part in bare.split("&&") if part.strip()]
