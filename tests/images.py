"""The agent's image for tests: made once from what the working tree holds, and kept for this user."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.lab import cache as caches
from fairlead.lab.cache import Cache

HOUSE = Path(__file__).parent.parent
SCRIPT = HOUSE / "deploy" / "image" / "rootfs.py"
_KEPT = 24 * 3600.0
"""Seconds for which an image that nobody asked for is kept: a working tree makes many of them."""


def agent_archive() -> Path:
    """Return the archive of the agent's image; the test fails where it cannot be made."""
    cache = caches.default(os.environ)
    key = f"agent-image-{_digest()}"
    folder = cache.folder(key)
    if not caches.is_done(folder):
        with caches.locked(cache, key, lambda: None):
            if not caches.is_done(folder):
                _forget_old(cache)
                with caches.made_aside(cache, key, {}) as aside:
                    _make(aside / "fairlead-image.tar")
    os.utime(folder)
    return folder / "fairlead-image.tar"


def _make(archive: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--archive", archive], capture_output=True, check=False, text=True
    )
    if done.returncode:
        pytest.fail(f"the agent's image cannot be made:\n{done.stderr}", pytrace=False)


def _digest() -> str:
    """Return what stands for everything that the image is made of."""
    made_of = hashlib.sha256(f"{sys.version} {sys.base_prefix}".encode())
    for path in _inputs():
        made_of.update(f"\0{path.relative_to(HOUSE)}\0".encode() + path.read_bytes())
    return made_of.hexdigest()[:12]


def _inputs() -> Iterator[Path]:
    yield HOUSE / "LICENSE"
    yield HOUSE / "requirements" / "agent.txt"
    yield from sorted(SCRIPT.parent.glob("*.py"))
    yield from sorted(path for path in (HOUSE / "src").rglob("*") if path.suffix in (".py", ".toml"))


def _forget_old(cache: Cache) -> None:
    for folder in cache.root.glob("agent-image-*"):
        if time.time() - folder.stat().st_mtime > _KEPT:
            shutil.rmtree(folder, ignore_errors=True)
