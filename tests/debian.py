"""Programs of Debian's packages where they are not installed: unpacked into a cache of the user.

The packages are the newest that this machine's Debian release offers, checked by apt; the folder is named
after their digests. Nothing is installed.
"""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

_APT: Final = ("apt-get", "-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=5", "download")
_MOST_SECONDS: Final = 60


class NotThereError(Exception):
    """The packages cannot be had here; the message is one line."""


def unpacked(
    name: str, packages: tuple[str, ...], prepare: Callable[[Path], None] = lambda root: None
) -> Path:
    """Return the folder of the packages, which `prepare` has seen once; it is made where it is not there."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    listed = _run(*_APT, "--print-uris", *packages, folder=Path("/"))  # where no package lies
    digests = "\n".join(sorted(line.split()[-1] for line in listed.splitlines()))
    target = caches / "fairlead" / name / hashlib.sha256(digests.encode()).hexdigest()[:16]
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        folder = Path(temporary)
        _run(*_APT, *packages, folder=folder)
        for package in sorted(folder.glob("*.deb")):
            _run("dpkg-deb", "-x", str(package), str(folder / "root"))
        prepare(folder / "root")
        try:
            (folder / "root").rename(target)
        except OSError:  # another test has made it meanwhile
            if not target.is_dir():
                raise
    return target


def _run(*command: str, folder: Path | None = None) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=_MOST_SECONDS
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise NotThereError(f"no packages of Debian: {error}") from error
    if done.returncode:
        raise NotThereError(f"no packages of Debian: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    return done.stdout
