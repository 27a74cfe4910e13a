"""The images for tests: each is built once from the working tree, and cached for this user."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.image.recipes import RECIPES
from fairlead.lab.build import cache as caches
from fairlead.lab.build.cache import BuildCache

HOUSE = Path(__file__).parent.parent
SCRIPT = HOUSE / "deploy" / "image" / "rootfs.py"
_KEPT = 24 * 3600.0
"""Seconds for which an unused image is kept: a working tree builds many of them."""


def agent_archive() -> Path:
    """Return the archive of the agent's image; the test fails if it cannot be built."""
    return image_archive("agent")


def scheduler_archive() -> Path:
    """Return the archive of the image of scheduler and extender."""
    return image_archive("scheduler")


def operator_archive() -> Path:
    """Return the archive of the operator's image."""
    return image_archive("operator")


def pipeline_archive() -> Path:
    """Return the archive of the image of pipelines."""
    return image_archive("pipeline")


def store_archive() -> Path:
    """Return the archive of the image of stores."""
    return image_archive("store")


def dashboard_archive() -> Path:
    """Return the archive of the image of the dashboard."""
    return image_archive("dashboard")


@dataclass(frozen=True, slots=True)
class UnpackedImage:
    """The contents of an image's archive."""

    tags: list[str]
    about: dict[str, Any]
    """The image's configuration."""
    packed: bytes
    members: dict[str, tarfile.TarInfo]


def unpack_image(path: Path, root: Path) -> UnpackedImage:
    """Unpack an image's archive into a folder, and return its tags, configuration and members."""
    with tarfile.open(path) as outer:
        files = {member.name: outer.extractfile(member).read() for member in outer}  # type: ignore[union-attr]  # files
    listed = json.loads(files["manifest.json"])[0]
    packed = files[listed["Layers"][0]]
    with tarfile.open(fileobj=io.BytesIO(packed)) as layer:
        layer.extractall(root, filter="fully_trusted")
        members = {member.name: member for member in layer}
    root.chmod(0o755)
    return UnpackedImage(listed["RepoTags"], json.loads(files[listed["Config"]]), packed, members)


def image_archive(recipe: str, architecture: str = "") -> Path:
    """Return the archive of an image; an empty architecture is this machine's."""
    cache = caches.default(os.environ)
    key = f"{recipe}-image-{architecture}{_digest()}"
    folder = cache.folder(key)
    if not caches.is_complete(folder):
        with caches.hold_lock(cache, key, lambda: None):
            if not caches.is_complete(folder):
                _remove_old(cache, recipe)
                with caches.staging_folder(cache, key, {}) as staging:
                    _build(recipe, architecture, staging / "fairlead-image.tar")
    os.utime(folder)
    return folder / "fairlead-image.tar"


def _build(recipe: str, architecture: str, archive: Path) -> None:
    command: list[str | Path] = [sys.executable, SCRIPT, "--for", recipe, "--archive", archive]
    command += ["--arch", architecture] if architecture else []
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        pytest.fail(f"the {recipe}'s image cannot be built:\n{done.stderr}", pytrace=False)


def _digest() -> str:
    """Return a digest of everything that the images are built from."""
    digest = hashlib.sha256(f"{sys.version} {sys.base_prefix}".encode())
    for path in _inputs():
        digest.update(f"\0{path.relative_to(HOUSE)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _inputs() -> Iterator[Path]:
    yield HOUSE / "LICENSE"
    yield from (recipe.lock for recipe in RECIPES.values())
    yield from sorted(SCRIPT.parent.glob("*.py"))
    yield from sorted(path for path in (HOUSE / "src").rglob("*") if path.suffix in (".py", ".toml"))


def _remove_old(cache: BuildCache, recipe: str) -> None:
    for folder in cache.root.glob(f"{recipe}-image-*"):
        if time.time() - folder.stat().st_mtime > _KEPT:
            shutil.rmtree(folder, ignore_errors=True)
