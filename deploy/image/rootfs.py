"""Make an image: without root, daemon, registry or build tool.

    python deploy/image/rootfs.py --archive build/fairlead-image.tar
    python deploy/image/rootfs.py --for scheduler --archive build/fairlead-scheduler-image.tar
    python deploy/image/rootfs.py --arch arm64 --archive build/fairlead-image-arm64.tar
    python deploy/image/rootfs.py --root /rootfs

The first three write an archive as `docker save` does; the last only the root file system, for the Dockerfile
beside this file. All put the same files together. For machines of this kind they are from this machine's own
Python; for another architecture, from Debian's packages for it.
"""

import argparse
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(HOUSE), str(HOUSE / "src")]

from deploy.image import archive, contents, pythons, recipes  # noqa: E402  # the path above leads to them
from fairlead.errors import FairleadError  # noqa: E402
from fairlead.units import Bytes, format_bytes  # noqa: E402


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Make an image, with no container engine.")
    parser.add_argument(
        "--for",
        dest="recipe",
        choices=recipes.RECIPES,
        default="agent",
        help="whose image (default: %(default)s); the scheduler's is the extender's as well",
    )
    into = parser.add_mutually_exclusive_group(required=True)
    into.add_argument("--archive", metavar="FILE", type=Path, help="write the image as `docker save` does")
    into.add_argument(
        "--root", metavar="DIR", type=Path, help="make only its root file system, in a new folder"
    )
    parser.add_argument(
        "--arch",
        metavar="ARCH",
        default="",
        help=f"the machines that it is for: {' or '.join(pythons.MACHINES)} (default: this machine's kind)",
    )
    parser.add_argument(
        "--refresh",
        action="store_true",
        help="with another --arch: fetch Debian's newest packages instead of those fetched earlier",
    )
    parser.add_argument(
        "--from-source",
        metavar="PACKAGE",
        action="append",
        default=[],
        help="build this package where it has no wheel",
    )
    options = parser.parse_args()
    try:
        lines = make_root(options) if options.root else make_archive(options)
    except (FairleadError, OSError) as error:
        sys.stderr.write(f"image: {error}\n  {getattr(error, 'hint', '')}".rstrip() + "\n")
        return 2
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def make_root(options: argparse.Namespace) -> list[str]:
    """Make the root file system in a folder that is not there yet, and say how large it is."""
    python = pythons.choose(options.arch, refresh=options.refresh)
    options.root.mkdir(parents=True)
    contents.assemble(options.root, recipes.RECIPES[options.recipe], python, options.from_source)
    return [str(options.root), *weight(options.root, python)]


def make_archive(options: argparse.Namespace) -> list[str]:
    """Write the archive, and say how large the image is."""
    recipe = recipes.RECIPES[options.recipe]
    python = pythons.choose(options.arch, refresh=options.refresh)
    options.archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fairlead-image-") as folder:
        root = Path(folder, "root")
        root.mkdir()
        contents.assemble(root, recipe, python, options.from_source)
        packed = archive.layer(root)
        archive.write_archive(options.archive, recipe, packed, python.architecture)
        small = format_bytes(Bytes(len(zlib.compress(packed))))
        named = f"{options.archive}: {recipe.tag} for linux/{python.architecture}"
        return [named, f"  compressed         {small}", *weight(root, python)]


def weight(root: Path, python: pythons.Python) -> list[str]:
    """Say how large a root file system is, and what of it is largest."""
    parts = Counter[str]()
    for path in root.rglob("*"):
        if path.is_file():
            parts[part(str(path.relative_to(root)), python)] += path.stat().st_size
    most = [f"    {format_bytes(Bytes(size)):>9}  {name}" for name, size in parts.most_common(5)]
    return [f"  root file system   {format_bytes(Bytes(parts.total()))}, of it", *most]


def part(name: str, python: pythons.Python) -> str:
    """Return what a file of the image belongs to."""
    if name.startswith(f"{python.standard}/"):
        return "Python's standard library"
    if name.startswith(f"{contents.APPLICATION}/"):
        return name.removeprefix(f"{contents.APPLICATION}/").partition("/")[0]
    return name.rpartition("/")[2]


if __name__ == "__main__":
    sys.exit(main())
