"""The image as an archive in the format of `docker save`: one layer and its configuration."""

import hashlib
import io
import json
import os
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from deploy.image.contents import USER
from deploy.image.recipes import Recipe
from fairlead import __version__

ENVIRONMENT: Final = ("PATH=/usr/bin", "MALLOC_ARENA_MAX=1")
"""One malloc arena for all threads."""
RETURNED: Final = ("MALLOC_MMAP_THRESHOLD_=131072", "MALLOC_TRIM_THRESHOLD_=131072")
"""Freed memory is returned: with one arena, 60 MiB stay 60, not 62 to 76."""


VARIANTS: Final = {"arm64": "v8"}
"""The OCI image specification requires a variant for an architecture that has several."""


def config(recipe: Recipe) -> dict[str, Any]:
    """Return an image's configuration; the Dockerfile has the same."""
    return {
        "Entrypoint": ["/usr/bin/fairlead"],
        "User": f"{USER}:{USER}",
        "WorkingDir": "/",
        "Env": [*ENVIRONMENT, *(() if recipe.keeps_memory else RETURNED), *recipe.environment],
        "Labels": {
            "org.opencontainers.image.title": recipe.name,
            "org.opencontainers.image.description": recipe.about,
            "org.opencontainers.image.version": __version__,
            "org.opencontainers.image.licenses": "Apache-2.0",
        },
    }


def layer(root: Path) -> bytes:
    """Return a folder as a layer, owned by root."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            tar.add(path, str(path.relative_to(root)), recursive=False, filter=_owned_by_root)
    return packed.getvalue()


def _owned_by_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = int(info.mtime)
    return info


def write_archive(path: Path, recipe: Recipe, packed: bytes, architecture: str) -> None:
    """Write an image of one layer for an architecture."""
    digest = hashlib.sha256(packed).hexdigest()
    created = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH") or 0), UTC)
    image_config = json.dumps(
        {
            "architecture": architecture,
            **({"variant": VARIANTS[architecture]} if architecture in VARIANTS else {}),
            "os": "linux",
            "created": f"{created:%Y-%m-%dT%H:%M:%SZ}",
            "config": config(recipe),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    names = f"{hashlib.sha256(image_config).hexdigest()}.json", f"{digest}/layer.tar"
    manifest = json.dumps([{"Config": names[0], "RepoTags": [recipe.tag], "Layers": [names[1]]}]).encode()
    with tarfile.open(path, "w") as tar:
        for name, data in zip((*names, "manifest.json"), (image_config, packed, manifest), strict=True):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
