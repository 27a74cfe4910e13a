"""Every error this program raises on purpose.

FairleadError              someone must act; `hint` says how
├── UserError              the user must change something            exit 2
│   ├── CatalogError       a catalog file cannot be used
│   ├── CaptureError       a captured host cannot be written or read
│   └── SettingsError      an option or setting has no such value
└── MissingPartError       an optional part is not installed          exit 2
"""


class FairleadError(Exception):
    """Say what is wrong and where; `hint` says what to do next."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UserError(FairleadError):
    """The user must change something."""

    exit_code = 2


class CatalogError(UserError):
    """A catalog file cannot be used."""


class CaptureError(UserError):
    """A captured host cannot be written or read."""


class SettingsError(UserError):
    """An option or setting has a value that it cannot have."""


class MissingPartError(FairleadError):
    """An optional part of the program is not installed."""

    exit_code = 2
