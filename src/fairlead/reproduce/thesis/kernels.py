"""Compile the kernels of the application: plain loops, without optimisation or with all of it."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fairlead.errors import EmulationError

SLOW, FAST = "slow", "fast"
FLAGS: Final[Mapping[str, tuple[str, ...]]] = {SLOW: ("-O0",), FAST: ("-O3", "-march=native")}
"""By kernel; the thesis's program is as slow as one without optimisation."""
_HERE: Final = Path(__file__).parent


def build(kernel: str, folder: Path, name: str = "") -> Path:
    """Compile a kernel into a folder and put the stages beside it; return the library."""
    compiler = shutil.which(name or os.environ.get("CC", "cc"))
    if compiler is None:
        raise EmulationError(
            "no C compiler: cc is missing", "install one (package gcc), or name another in CC"
        )
    library = folder / f"{kernel}.so"
    words = [*FLAGS[kernel], "-std=c99", "-shared", "-fPIC", "-o", str(library), str(_HERE / "kernels.c")]
    done = subprocess.run(  # noqa: S603 - no shell; the compiler is the user's own
        [compiler, *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise EmulationError(f"{compiler} failed: {lines[0]}", "set CC to a compiler of C99")
    shutil.copyfile(_HERE / "stages.py", folder / f"{kernel}.py")
    return library
