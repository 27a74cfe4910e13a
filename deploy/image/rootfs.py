"""Build an image: without root, daemon, registry or build tool.

    python deploy/image/rootfs.py --archive build/fairlead-image.tar
    python deploy/image/rootfs.py --for scheduler --archive build/fairlead-scheduler-image.tar
    python deploy/image/rootfs.py --arch arm64 --archive build/fairlead-image-arm64.tar
    python deploy/image/rootfs.py --for pipeline --packages my.txt --tag localhost/my:1 --archive my.tar
    python deploy/image/rootfs.py --root /rootfs

The first four write an archive in the format of `docker save`; the last only the root file system, for the
Dockerfile in this folder. All assemble the same files. For this architecture they come from this machine's
own Python; for another one, from Debian's packages for it.
"""

import argparse
import sys
import tempfile
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(HOUSE), str(HOUSE / "src")]

from deploy.image import archive, contents, pythons, recipes  # noqa: E402  # the path above leads to them
from fairlead.errors import FairleadError  # noqa: E402
from fairlead.units import Bytes, format_bytes  # noqa: E402


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Build an image, without a container engine.")
    parser.add_argument(
        "--for",
        dest="recipe",
        choices=recipes.RECIPES,
        default="agent",
        help="the program (default: %(default)s); the extender uses the scheduler's image",
    )
    into = parser.add_mutually_exclusive_group(required=True)
    into.add_argument(
        "--archive", metavar="FILE", type=Path, help="write the image in the format of `docker save`"
    )
    into.add_argument(
        "--root", metavar="DIR", type=Path, help="build only its root file system, in a new folder"
    )
    parser.add_argument(
        "--arch",
        metavar="ARCH",
        default="",
        help=f"the architecture: {' or '.join(pythons.MACHINES)} (default: this machine's)",
    )
    parser.add_argument(
        "--refresh",
        action="store_true",
        help="with another --arch: fetch Debian's newest packages instead of the cached ones",
    )
    parser.add_argument(
        "--from-source",
        metavar="PACKAGE",
        action="append",
        default=[],
        help="build this package from source, if it has no wheel",
    )
    parser.add_argument(
        "--packages",
        metavar="LOCK",
        type=Path,
        help="a lock file instead of the recipe's own: it needs the same and more",
    )
    parser.add_argument("--tag", metavar="NAME:TAG", default="", help="name the image so")
    options = parser.parse_args()
    try:
        lines = make_root(options) if options.root else make_archive(options)
    except (FairleadError, OSError) as error:
        sys.stderr.write(f"image: {error}\n  {getattr(error, 'hint', '')}".rstrip() + "\n")
        return 2
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def make_root(options: argparse.Namespace) -> list[str]:
    """Build the root file system in a new folder, and return the lines of its size report."""
    python = pythons.choose(options.arch, refresh=options.refresh)
    options.root.mkdir(parents=True)
    contents.assemble(options.root, chosen_recipe(options), python, options.from_source)
    return [str(options.root), *size_report(options.root, python)]


def make_archive(options: argparse.Namespace) -> list[str]:
    """Write the archive, and return the lines of its size report."""
    recipe = chosen_recipe(options)
    python = pythons.choose(options.arch, refresh=options.refresh)
    options.archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fairlead-image-") as folder:
        root = Path(folder, "root")
        root.mkdir()
        contents.assemble(root, recipe, python, options.from_source)
        packed = archive.layer(root)
        archive.write_archive(options.archive, recipe, packed, python.architecture)
        compressed = format_bytes(Bytes(len(zlib.compress(packed))))
        title = f"{options.archive}: {recipe.tag} for linux/{python.architecture}"
        return [title, f"  compressed         {compressed}", *size_report(root, python)]


def chosen_recipe(options: argparse.Namespace) -> recipes.Recipe:
    """Return the recipe, with the user's packages and name."""
    recipe = recipes.RECIPES[options.recipe]
    return replace(recipe, named=options.tag, other_lock=options.packages)


def size_report(root: Path, python: pythons.Python) -> list[str]:
    """Return the size of a root file system, and its five largest parts."""
    parts = Counter[str]()
    for path in root.rglob("*"):
        if path.is_file():
            parts[part(str(path.relative_to(root)), python)] += path.stat().st_size
    largest = [f"    {format_bytes(Bytes(size)):>9}  {name}" for name, size in parts.most_common(5)]
    return [f"  root file system   {format_bytes(Bytes(parts.total()))}, of it", *largest]


def part(name: str, python: pythons.Python) -> str:
    """Return the part of the image that a file belongs to."""
    if name.startswith(f"{python.standard}/"):
        return "Python's standard library"
    if name.startswith(f"{contents.APPLICATION}/"):
        return name.removeprefix(f"{contents.APPLICATION}/").partition("/")[0]
    return name.rpartition("/")[2]


if __name__ == "__main__":
    sys.exit(main())
