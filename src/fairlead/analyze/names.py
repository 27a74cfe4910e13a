"""Make names from a file safe to print."""

from typing import Final

_SHOWN: Final = 120


def printable(name: str) -> str:
    """Return a name that cannot control a terminal or fill a screen."""
    text = name if name.isprintable() else "".join(char if char.isprintable() else "?" for char in name)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
