"""Run a Python 3.10 with fairlead from this checkout and the packages of its tests: `py310.py -m pytest ...`.

`--print` prints the paths of the interpreter and its packages; `--print arm64`: of an interpreter for arm64.
"""

import os
import sys
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HOUSE / "src"), str(HOUSE)]

from fairlead.errors import LabError  # noqa: E402  # the checkout's own, installed or not
from tests.lab.python310 import ensure_packages, ensure_python  # noqa: E402

PINS = HOUSE / "requirements/py310.txt"


def main(argv: list[str]) -> None:
    """Execute that Python in place of this process."""
    if argv[:1] == ["--print"] and argv[1:]:
        print(ensure_python(argv[1]))
        return
    python = ensure_python()
    packages = ensure_packages(python, PINS)
    if argv[:1] == ["--print"]:
        print(python, packages, sep="\n")
        return
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    own = environment(python, packages)
    os.execve(own, [str(own), *argv], {**environ, "PYTHONDONTWRITEBYTECODE": "1"})  # the user's arguments


def environment(python: Path, packages: Path) -> Path:
    """Create a virtual environment in build/, and return its Python.

    A Python started with -I ignores PYTHONPATH, but not the packages of its environment.
    """
    folder = HOUSE / "build" / "py310"
    site = folder / "lib/python3.10/site-packages"
    site.mkdir(parents=True, exist_ok=True)
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "pyvenv.cfg").write_text(f"home = {python.parent}\n", encoding="utf-8")
    (site / "fairlead.pth").write_text(f"{HOUSE / 'src'}\n{packages}\n", encoding="utf-8")
    own = folder / "bin" / "python3.10"
    if not own.exists() or own.resolve() != python.resolve():
        own.unlink(missing_ok=True)
        own.symlink_to(python)
    return own


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except LabError as error:
        sys.exit(f"{error}\n  {error.hint}")
