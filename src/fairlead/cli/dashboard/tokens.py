"""The token of a dashboard for one person."""

import secrets
from typing import Final

from fairlead.errors import SettingsError

_SHORTEST: Final = 16
_LONGEST: Final = 4096


def new_token() -> str:
    """Return a new token, which nobody can guess."""
    return secrets.token_urlsafe(32)


def read_token(path: str) -> str:
    """Return the token of a file."""
    try:
        with open(path, encoding="ascii") as file:
            token = file.read(_LONGEST + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"--token-file {path}: cannot be read ({error})", "name a file with a token"
        ) from None
    if not _SHORTEST <= len(token) <= _LONGEST or len(token.split()) != 1:
        raise SettingsError(
            f"--token-file {path}: not a token of {_SHORTEST} to {_LONGEST} characters",
            "write one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))' > FILE",
        )
    return token
