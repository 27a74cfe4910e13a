"""What Python programs of a job import at their start: it sets limits and threads of frameworks.

Only those that no variable sets. The folder stands first in PYTHONPATH of every job, except with `--limiter
none`. Its files run in the program's own Python, from 3.6 on, import nothing of fairlead, and never end or
change a program that has no such framework.

sitecustomize.py   Python imports it at its start; it hands over to the user's own sitecustomize
fairlead_limits/   the import hook, and a module for each framework
"""

import os
from typing import Final

FOLDER: Final = os.path.dirname(os.path.abspath(__file__))


def python_path(present: str) -> str:
    """Return a PYTHONPATH with the hook in front of what it has."""
    folders = present.split(os.pathsep) if present else []
    if os.pathsep in FOLDER or FOLDER in folders:
        return present  # a job of a job has it already
    return os.pathsep.join([FOLDER, *folders])
