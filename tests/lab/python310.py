"""A Python 3.10 for tests, the version of JetPack 6 and Ubuntu 22.04, on machines with a newer one.

It is data of a pinned Go module: a relocatable build for Linux on amd64 and on arm64. It is unpacked into the
lab's cache, and so are the packages that the tests need there.
"""

import gzip
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from fairlead.errors import LabError
from fairlead.lab.build import cache as caches
from fairlead.lab.build import toolchain
from fairlead.lab.build.cache import BuildCache
from fairlead.lab.build.modules import architecture, required_go
from fairlead.lab.build.programs import BuildEnvironment, default_environment
from fairlead.lab.run import subprocess
from fairlead.units import parse_bytes

MODULE: Final = "github.com/kluctl/go-embed-python"
MACHINES: Final = ("amd64", "arm64")
_NAME: Final = "python310"
_ROOM: Final = parse_bytes("1GiB")
_FOLDER: Final = 1 << 31
"""The bit of Go's file mode that marks a folder."""

Tick = Callable[[], None]


def ensure_python(
    machine: str = "", tick: Tick = lambda: None, *, build_env: BuildEnvironment | None = None
) -> Path:
    """Return the path of a Python 3.10 for an architecture (Go's name; empty: this one); fetch if missing."""
    build_env, machine = build_env or default_environment(), machine or architecture()
    if machine not in MACHINES:
        raise LabError(
            f"{MODULE} has no Python 3.10 for {machine}", hint=f"it has one for {', '.join(MACHINES)}"
        )
    source = build_env.sources / _NAME
    pins = "".join((source / name).read_text(encoding="utf-8") for name in ("go.mod", "go.sum"))
    key = f"{_NAME}-{machine}-{_digest(pins)}"
    folder = build_env.cache.folder(key)
    if not caches.is_complete(folder):
        with caches.hold_lock(build_env.cache, key, tick):
            if not caches.is_complete(folder):
                caches.require_space(build_env.cache, _ROOM)
                with (
                    caches.hold_go_caches(build_env.cache),
                    caches.staging_folder(build_env.cache, key, {}) as aside,
                ):
                    unpack(
                        _module(build_env, source, aside, tick) / f"python/internal/data/linux-{machine}",
                        aside,
                    )
    return folder / "bin" / "python3.10"


def ensure_packages(
    python: Path,
    pins: Path,
    tick: Tick = lambda: None,
    *,
    cache: BuildCache | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """Return a folder with the packages of a hashed requirements file, for such a Python."""
    cache = cache or caches.default(environ)
    key = f"{_NAME}-packages-{_digest(pins.read_text(encoding='utf-8') + str(python))}"
    if not caches.is_complete(cache.folder(key)):
        with caches.hold_lock(cache, key, tick):
            if not caches.is_complete(cache.folder(key)):
                with caches.staging_folder(cache, key, {}) as aside:
                    _install(python, pins, aside, cache.log(key), environ, tick)
                cache.log(key).unlink()
    return cache.folder(key)


def unpack(packed: Path, target: Path) -> None:
    """Unpack the files that the module embeds; the larger ones are compressed."""
    entries: list[dict[str, Any]] = json.loads((packed / "files.json").read_text(encoding="utf-8"))["files"]
    for entry in entries:
        path = target / entry["name"]
        if not path.resolve().is_relative_to(target.resolve()):
            raise LabError(f"{packed}: {entry['name']} lies outside of it", hint="the module has changed")
        if entry["perm"] & _FOLDER:
            path.mkdir(exist_ok=True)
        elif entry.get("symlink"):
            path.symlink_to(entry["symlink"])
        else:
            _write(packed / entry["name"], path, packed=bool(entry.get("compressed")))
            path.chmod(entry["perm"] & 0o755)


def _write(source: Path, target: Path, *, packed: bool) -> None:
    if not packed:
        shutil.copyfile(source, target)
        return
    with gzip.open(f"{source}.gz") as read, target.open("wb") as written:
        shutil.copyfileobj(read, written)


def _module(build_env: BuildEnvironment, source: Path, aside: Path, tick: Tick) -> Path:
    """Download the pinned module, and return its folder."""
    pins, log = build_env.sources / "toolchain.txt", build_env.cache.log(aside.name.lstrip("."))
    go = toolchain.fetch(
        build_env.cache,
        toolchain.find(required_go(source), pins, build_env.environ),
        pins,
        build_env.environ,
        tick,
    )
    env, answer = toolchain.environment(build_env.cache, aside, build_env.environ), aside / "module.json"
    argv = [str(go), "mod", "download", "-json", MODULE]
    if subprocess.run(argv, log, env=env, cwd=source, watch=tick, output=answer) != 0:
        output = answer.read_text(errors="replace") + log.read_text(errors="replace")
        raise LabError(
            f"a Python 3.10 cannot be fetched from {MODULE}: {' '.join(output.split())[-300:]}",
            hint="the module proxy cannot be reached: check the network, or set GOPROXY",
        )
    folder = Path(json.loads(answer.read_text(encoding="utf-8"))["Dir"])
    answer.unlink()
    log.unlink()
    return folder


def _install(
    python: Path, pins: Path, folder: Path, log: Path, environ: Mapping[str, str], tick: Tick
) -> None:
    # This Python's pip, run by the other, which has none: the running interpreter evaluates markers.
    argv = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
    argv += ["--disable-pip-version-check", "--require-hashes", "--only-binary=:all:", "--no-deps"]
    own = {name: value for name, value in environ.items() if name != "PYTHONPATH"}
    code = subprocess.run(
        [*argv, "--target", str(folder), "-r", str(pins)], log, env=own, cwd=folder, watch=tick
    )
    if code != 0:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:])
        raise LabError(
            f"the packages of {pins} cannot be installed for {python}:\n{tail}",
            hint=f"let pip reach its index; full log: {log}",
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
