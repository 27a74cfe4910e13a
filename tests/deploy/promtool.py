"""promtool, Prometheus' own checker, as the lab builds it."""

import io
import subprocess
from functools import cache
from pathlib import Path

from fairlead.errors import LabError
from fairlead.lab.control.prometheus import binaries
from fairlead.lab.run.steps import StepPrinter
from tests.labs import skip_without_lab


@cache
def promtool() -> Path:
    """Return the program; skip if it cannot be built."""
    try:
        return binaries(StepPrinter(io.StringIO()))["promtool"]
    except LabError as error:
        skip_without_lab(str(error).splitlines()[0])


def complaint(*argv: str | Path) -> str:
    """Run promtool; return its output if it fails, and nothing if it succeeds."""
    done = subprocess.run([promtool(), *argv], capture_output=True, text=True, check=False, timeout=300)
    return done.stdout + done.stderr if done.returncode else ""
