"""The files that travel with the program: documentation, examples, the chart, and manifests made from it.

A wheel holds them in `fairlead/share`; in a checkout they lie where people edit them.
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
"""What there is, and where a checkout has it; pyproject.toml puts each into the wheel."""
_PACKAGE: Final = Path(__file__).parent


def folder(name: str, package: Path = _PACKAGE) -> Path:
    """Return the folder of a kind of files, inside the installed package or in the checkout around it."""
    for place in (package / "share" / name, package.parent.parent / FOLDERS[name]):
        if place.is_dir():
            return place
    raise UserError(
        f"the {name} did not come with this installation",
        "a container image leaves them out: run this where fairlead was installed by pip",
    )


def files(name: str, package: Path = _PACKAGE) -> dict[str, Path]:
    """Return the files of a kind by their paths in its folder, in order."""
    top = folder(name, package)
    found = (each for each in top.rglob("*") if each.is_file() and "__pycache__" not in each.parts)
    return {each.relative_to(top).as_posix(): each for each in sorted(found)}
