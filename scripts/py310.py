"""Run a Python 3.10 with fairlead from this checkout and what its tests need: `py310.py -m pytest ...`.

`--print` says where the interpreter and its packages lie; `--print arm64`: the interpreter of such a board.
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
    """Become that Python."""
    if argv[:1] == ["--print"] and argv[1:]:
        print(ensure_python(argv[1]))
        return
    python = ensure_python()
    packages = ensure_packages(python, PINS)
    if argv[:1] == ["--print"]:
        print(python, packages, sep="\n")
        return
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    mine = environment(python, packages)
    os.execve(mine, [str(mine), *argv], {**environ, "PYTHONDONTWRITEBYTECODE": "1"})  # noqa: S606  # the user's own words


def environment(python: Path, packages: Path) -> Path:
    """Make a virtual environment in build/, and return its Python.

    Programs that are started with -I see no PYTHONPATH; those of an environment they do see.
    """
    folder = HOUSE / "build" / "py310"
    site = folder / "lib/python3.10/site-packages"
    site.mkdir(parents=True, exist_ok=True)
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "pyvenv.cfg").write_text(f"home = {python.parent}\n", encoding="utf-8")
    (site / "fairlead.pth").write_text(f"{HOUSE / 'src'}\n{packages}\n", encoding="utf-8")
    mine = folder / "bin" / "python3.10"
    if not mine.exists() or mine.resolve() != python.resolve():
        mine.unlink(missing_ok=True)
        mine.symlink_to(python)
    return mine


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except LabError as error:
        sys.exit(f"{error}\n  {error.hint}")
