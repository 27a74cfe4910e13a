"""Keys of a terminal that are no characters."""

from fairlead.compat import StrEnum


class SpecialKey(StrEnum):
    """A key that is no character."""

    UP = "up"
    DOWN = "down"
    PAGE_UP = "page-up"
    PAGE_DOWN = "page-down"
    HOME = "home"
    END = "end"
    ENTER = "enter"
    ESCAPE = "escape"
    BACKSPACE = "backspace"
