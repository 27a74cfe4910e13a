"""Prometheus' own checker, from wherever there is one: this machine, or the lab's cache."""

import shutil
import subprocess
from pathlib import Path

from fairlead.errors import LabError
from fairlead.lab.debian import ensure_tools
from tests.labs import give_up

PACKAGE = "prometheus"


def promtool() -> Path:
    """Return the program; skip where it cannot be had."""
    here = shutil.which("promtool")
    if here:
        return Path(here)
    try:
        return ensure_tools(packages=(PACKAGE,)).program("promtool")
    except LabError as error:
        give_up(str(error).splitlines()[0])


def complaint(*argv: str | Path) -> str:
    """Run promtool; return what it says when it is not content, nothing when it is."""
    done = subprocess.run([promtool(), *argv], capture_output=True, text=True, check=False, timeout=300)
    return done.stdout + done.stderr if done.returncode else ""
