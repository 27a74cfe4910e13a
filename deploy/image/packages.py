"""The packages of an image: those of its lock file, fetched once per user."""

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from deploy.image.pythons import MACHINES, Python
from fairlead.errors import UserError
from fairlead.lab.build import cache as caches

_OLDEST: Final = 17
"""manylinux_2_17 is the oldest tag of wheels for 64-bit ARM; older ones exist only for x86."""


def ensure_packages(
    lock: Path,
    python: Python,
    from_source: Sequence[str] = (),
    only: Collection[str] = (),
    pure: Sequence[str] = (),
) -> Path:
    """Return a folder with the packages of a lock file; install them if the cache has none for this Python.

    Only wheels are installed, which run no code at installation; `from_source` names the exceptions.
    For another architecture, `only` selects some of the packages. `pure` have no wheel and nothing to
    compile: what is built of them here suits every architecture.
    """
    if python.root is not None and from_source:
        raise UserError(
            f"{', '.join(from_source)} cannot be built from source for {python.architecture} on this machine",
            hint="leave out --from-source, or use deploy/image/Dockerfile",
        )
    cache = caches.default(os.environ)
    abi = (
        sysconfig.get_config_var("SOABI")
        if python.root is None
        else f"cp{python.version[0]}{python.version[1]}"
    )
    made_for = [abi, python.architecture, python.libc, *from_source, *sorted(only), *pure]
    digest = hashlib.sha256(json.dumps(made_for).encode() + lock.read_bytes()).hexdigest()
    key = f"{lock.stem}-packages-{digest[:12]}"
    folder = cache.folder(key)
    if not caches.is_complete(folder):
        with caches.hold_lock(cache, key, lambda: None):
            if not caches.is_complete(folder):
                with caches.staging_folder(cache, key, {"made_for": made_for}) as staging:
                    _install(lock, staging, python, from_source, only, pure)
    return folder


def _install(
    lock: Path,
    folder: Path,
    python: Python,
    from_source: Sequence[str],
    only: Collection[str],
    pure: Sequence[str],
) -> None:
    if python.root is None:
        _pip(lock.name, folder, lock, [*from_source, *pure])
        return
    lines = requirements(lock.read_text(encoding="utf-8"), python, only)
    built = [line for line in lines if line.partition("==")[0] in pure]
    chosen = folder / "requirements.txt"
    chosen.write_text("\n".join(line for line in lines if line not in built), encoding="utf-8")
    _pip(lock.name, folder, chosen, from_source, ["--no-deps", *_target(python)])
    if built:
        chosen.write_text("\n".join(built), encoding="utf-8")
        _pip(lock.name, folder, chosen, pure, ["--no-deps"])


def _pip(lock: str, folder: Path, chosen: Path, from_source: Sequence[str], more: Sequence[str] = ()) -> None:
    sources = [word for name in from_source for word in ("--no-binary", name)]
    options = ["--quiet", "--no-compile", "--require-hashes", "--only-binary", ":all:", *sources, *more]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options]
    done = subprocess.run(  # noqa: S603  # no shell; every argument is ours
        [*pip, "--target", folder, "--requirement", chosen], capture_output=True, check=False, text=True
    )
    if done.returncode:
        last_line = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise UserError(
            f"the packages of {lock} cannot be installed: {last_line[0]}",
            hint="the first build for a Python needs pip and a package index; later ones need neither",
        )


def _target(python: Python) -> list[str]:
    """Return the options with which pip installs the wheels of another architecture."""
    machine, newest = MACHINES[python.architecture], int(python.libc.split(".")[1])
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(newest, _OLDEST - 1, -1)]
    platforms = [word for tag in (*tags, f"manylinux2014_{machine}") for word in ("--platform", tag)]
    version = f"{python.version[0]}.{python.version[1]}"
    return ["--implementation", "cp", "--python-version", version, *platforms]


def requirements(lock: str, python: Python, only: Collection[str] = ()) -> list[str]:
    """Return the lines of a lock file that another architecture needs; `only` selects some of them.

    pip would evaluate the markers for the Python that runs it.
    """
    from packaging.requirements import Requirement  # noqa: PLC0415  # the Dockerfile's Python has none

    version = f"{python.version[0]}.{python.version[1]}"
    environment = {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": MACHINES[python.architecture],
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{version}.0",
        "python_version": version,
        "sys_platform": "linux",
    }
    lines = []
    for line in lock.replace("\\\n", " ").splitlines():
        text, _, hashes = line.partition(" --hash=")
        if not hashes or text.startswith("#"):
            continue
        package = Requirement(text)
        applies = package.marker is None or package.marker.evaluate(environment)
        if (not only or package.name in only) and applies:
            lines.append(f"{package.name}{package.specifier} --hash={' '.join(hashes.split())}")
    return lines
