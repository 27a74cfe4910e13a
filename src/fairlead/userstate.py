"""Where a user's state is, as the XDG Base Directory specification says."""

import os
from collections.abc import Mapping


def state_folder(environ: Mapping[str, str], name: str) -> str:
    """Return this user's folder for one kind of state; it need not exist."""
    state = environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # the specification ignores relative paths
        state = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "fairlead", name)


def names_with(folder: str, file: str) -> list[str]:
    """Return the names of the folders below this one that hold a file of this name."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(name for name in names if os.path.isfile(os.path.join(folder, name, file)))
