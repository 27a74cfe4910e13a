"""The packages that an image stands on: as its lock file names them, fetched once per user."""

import hashlib
import json
import os
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from fairlead.errors import UserError
from fairlead.lab import cache as caches


def ensure_packages(lock: Path, from_source: Sequence[str] = ()) -> Path:
    """Return a folder with the packages of a lock file, installed where the cache has none for this Python.

    Only wheels are taken, whose installation runs no code of theirs; `from_source` names the exceptions.
    """
    cache = caches.default(os.environ)
    made_for = [sysconfig.get_config_var("SOABI"), platform.machine(), *platform.libc_ver(), *from_source]
    digest = hashlib.sha256(json.dumps(made_for).encode() + lock.read_bytes()).hexdigest()
    key = f"{lock.stem}-packages-{digest[:12]}"
    folder = cache.folder(key)
    if not caches.is_done(folder):
        with caches.locked(cache, key, lambda: None):
            if not caches.is_done(folder):
                with caches.made_aside(cache, key, {"made_for": made_for}) as aside:
                    _install(lock, aside, from_source)
    return folder


def _install(lock: Path, folder: Path, from_source: Sequence[str]) -> None:
    sources = [word for name in from_source for word in ("--no-binary", name)]
    options = ["--quiet", "--no-compile", "--require-hashes", "--only-binary", ":all:", *sources]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options]
    done = subprocess.run(  # noqa: S603  # no shell; every argument is ours
        [*pip, "--target", folder, "--requirement", lock], capture_output=True, check=False, text=True
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise UserError(
            f"the packages of {lock.name} cannot be installed: {said[0]}",
            hint="the first build for a Python needs pip and a package index; later ones need neither",
        )
