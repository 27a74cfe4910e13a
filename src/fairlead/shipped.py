"""The files that ship with the program: documentation, examples, the chart, and manifests made from it.

A wheel has them in `fairlead/share`; a checkout has them where people edit them.
"""

from pathlib import Path
from typing import Final

from fairlead.errors import UserError

FOLDERS: Final = {
    "docs": "docs",
    "examples": "examples",
    "chart": "deploy/chart",
    "manifests": "deploy/manifests",
}
"""The kinds of files, and their folders in a checkout; pyproject.toml adds each to the wheel."""
_PACKAGE: Final = Path(__file__).parent


def folder(name: str, package: Path = _PACKAGE) -> Path:
    """Return the folder of a kind of files, inside the installed package or in the checkout around it."""
    for candidate in (package / "share" / name, package.parent.parent / FOLDERS[name]):
        if candidate.is_dir():
            return candidate
    raise UserError(
        f"this installation does not contain the {name}",
        "a container image omits them: run this where fairlead was installed by pip",
    )


def files(name: str, package: Path = _PACKAGE) -> dict[str, Path]:
    """Return the files of a kind by their paths in its folder, in order."""
    top = folder(name, package)
    paths = (path for path in top.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(top).as_posix(): path for path in sorted(paths)}
