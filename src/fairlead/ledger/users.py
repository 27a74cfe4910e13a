"""Users: the names of uids."""

import pwd
from functools import lru_cache


@lru_cache(maxsize=1024)
def user_name(uid: int) -> str:
    """Return the name of a user; a uid without one is its own name."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
    return name if name.isprintable() else str(uid)
