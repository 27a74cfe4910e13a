"""Run a Python 3.10 with fairlead from this checkout and what its tests need: `py310.py -m pytest ...`.

With --print: say where the interpreter and its packages lie; --print arm64: the interpreter of such a machine.
"""

import os
import sys
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HOUSE / "src"))

from fairlead.errors import LabError  # noqa: E402  # the checkout's own, installed or not
from fairlead.lab.python310 import ensure_packages, ensure_python  # noqa: E402

PINS = HOUSE / "requirements/py310.txt"


def main(argv: list[str]) -> None:
    """Become that Python."""
    if argv[:1] == ["--print"] and argv[1:]:
        print(ensure_python(argv[1]))
        return
    python = ensure_python()
    packages = ensure_packages(python, PINS)
    if argv[:1] == ["--print"]:
        print(python, packages, sep="\n")
        return
    own = os.pathsep.join((str(HOUSE / "src"), str(packages)))
    environ = {**os.environ, "PYTHONPATH": own, "PYTHONDONTWRITEBYTECODE": "1"}
    os.execve(python, [str(python), *argv], environ)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except LabError as error:
        sys.exit(f"{error}\n  {error.hint}")
