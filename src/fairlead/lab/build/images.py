"""Container images from local files: no registry, no daemon, no build tool.

One archive in the format of `docker save` holds them all; `ctr images import` reads it.
"""

import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fairlead.lab.build import cache as caches
from fairlead.lab.build.cache import BuildCache
from fairlead.lab.build.modules import architecture

PAUSE: Final = "localhost/pause:1"
BUSYBOX: Final = "localhost/busybox:1"
COREDNS: Final = "localhost/coredns:1"
_LEFT_OUT: Final = frozenset({"busybox", "wget"})
"""Debian's static wget crashes (SIGSEGV) before it reads its arguments; tests use `nc` instead."""
_RECIPE: Final = 2
"""Raise this number when the contents of the images change: the cached ones are then rebuilt."""


@dataclass(frozen=True, slots=True)
class LayerEntry:
    """A file, a link or a folder of a layer."""

    path: str
    source: Path | None = None
    link: str = ""
    text: str | None = None
    mode: int = 0o755


@dataclass(frozen=True, slots=True)
class Image:
    """An image with one layer."""

    tag: str
    entries: tuple[LayerEntry, ...]
    config: Mapping[str, Any] = field(default_factory=dict)


def busybox_image(busybox: Path) -> Image:
    """Return an image of a static busybox, with a link for each of its tools."""
    listed = subprocess.run([busybox, "--list"], capture_output=True, check=True, text=True)  # noqa: S603  # ours
    tools = [name for name in listed.stdout.split() if name not in _LEFT_OUT]
    folders = [LayerEntry(name) for name in ("bin", "etc", "home", "dev", "proc", "sys")]
    return Image(
        BUSYBOX,
        (
            *folders,
            LayerEntry("tmp", mode=0o1777),
            LayerEntry("bin/busybox", source=busybox),
            *(LayerEntry(f"bin/{tool}", link="busybox") for tool in tools),
            LayerEntry("etc/passwd", text="root:x:0:0::/:/bin/sh\n", mode=0o644),
            LayerEntry("etc/group", text="root:x:0:\n", mode=0o644),
            LayerEntry("etc/nsswitch.conf", text="hosts: files dns\n", mode=0o644),
        ),
        {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]},
    )


def pause_image(busybox: Path) -> Image:
    """Return the pause image, which holds a pod's namespaces open: it sleeps until it is killed."""
    # 68 years: the largest number of seconds that every implementation of sleep takes.
    config = {"Entrypoint": ["/busybox", "sleep", str(2**31 - 1)], "User": "65535:65535"}
    return Image(PAUSE, (LayerEntry("busybox", source=busybox),), config)


def coredns_image(coredns: Path) -> Image:
    """Return the image of CoreDNS, the cluster's DNS server."""
    return Image(COREDNS, (LayerEntry("coredns", source=coredns),), {"Entrypoint": ["/coredns"]})


def ensure_images(busybox: Path, coredns: Path, *, cache: BuildCache | None = None) -> Path:
    """Return the archive of the lab's images; build it if the cache has none of these programs."""
    cache = cache or caches.default(os.environ)
    # Programs in the cache never change under the same path.
    inputs = json.dumps([_RECIPE, architecture(), str(busybox), str(coredns)])
    key = f"images-{hashlib.sha256(inputs.encode()).hexdigest()[:12]}"
    archive = cache.folder(key) / "images.tar"
    if not caches.is_complete(cache.folder(key)):
        with caches.hold_lock(cache, key, lambda: None):
            if not caches.is_complete(cache.folder(key)):
                images = [pause_image(busybox), busybox_image(busybox), coredns_image(coredns)]
                with caches.staging_folder(
                    cache, key, {"images": [image.tag for image in images]}
                ) as staging:
                    write_archive(staging / "images.tar", images)
    return archive


def write_archive(path: Path, images: Iterable[Image]) -> None:
    """Write images into one archive."""
    listed = []
    with tarfile.open(path, "w") as archive:
        for image in images:
            layer = path.with_suffix(".layer")
            digest = _write_layer(layer, image.entries)
            name = f"{digest}/layer.tar"
            archive.add(layer, name)
            layer.unlink()
            config = _config(image, digest)
            config_name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add(archive, config_name, config)
            listed.append({"Config": config_name, "RepoTags": [image.tag], "Layers": [name]})
        _add(archive, "manifest.json", json.dumps(listed).encode())


def _config(image: Image, digest: str) -> bytes:
    return json.dumps(
        {
            "architecture": architecture(),
            "os": "linux",
            "config": image.config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()


def _write_layer(path: Path, entries: Iterable[LayerEntry]) -> str:
    """Write a layer and return its digest; equal entries always give equal bytes."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as layer:
        for entry in entries:
            info = tarfile.TarInfo(entry.path)
            info.mode = entry.mode
            if entry.source is not None:
                info.size = entry.source.stat().st_size
                with entry.source.open("rb") as file:
                    layer.addfile(info, file)
            elif entry.text is not None:
                _add(layer, info, entry.text.encode())
            else:
                info.type = tarfile.SYMTYPE if entry.link else tarfile.DIRTYPE
                info.linkname = entry.link
                layer.addfile(info)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _add(archive: tarfile.TarFile, info: tarfile.TarInfo | str, data: bytes) -> None:
    info = tarfile.TarInfo(info) if isinstance(info, str) else info
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))
