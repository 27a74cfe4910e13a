"""Tiny models, images as archives, and pods that run models."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from fairlead.cluster.http import codec
from fairlead.manifest.types.program import ProgramPod
from tests.analyze.models import graph, node, saved, value

GPU = {"limits": {"nvidia.com/gpu": "1"}}


def model(folder: Path, name: str = "tiny.onnx", size: int = 4) -> bytes:
    """Write a model of one operator, and return its bytes; another size is another digest."""
    return Path(saved(folder, graph([node("Relu", "x", "y")], [value("x", 1, size)]), name=name)).read_bytes()


def pod(container: dict[str, Any] | None = None, **spec: Any) -> ProgramPod:
    """Return a pod with one container that requests a GPU."""
    main = {"name": "main", "image": "example/app:v1", "resources": GPU, **(container or {})}
    meta = {"name": "web", "namespace": "default"}
    return codec.from_document(ProgramPod, {"metadata": meta, "spec": {"containers": [main], **spec}})


Member = tuple[str, bytes | str]
"""A name with content; `>target` is a link, `=target` a hard link, `/` a folder."""


def layer(*members: Member) -> bytes:
    """Return a layer as a tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
                continue
            info.type = {"=": tarfile.LNKTYPE, "/": tarfile.DIRTYPE}.get(content[:1], tarfile.SYMTYPE)
            info.linkname = content[1:]
            tar.addfile(info)
    return out.getvalue()


def archive(files: dict[str, bytes]) -> bytes:
    """Return an archive of files."""
    return layer(*files.items())


def docker_save(layers: list[bytes], tag: str = "example/app:v1", **config: Any) -> bytes:
    """Return an image as `docker save` writes it, lowest layer first."""
    names = [f"{at}/layer.tar" for at in range(len(layers))]
    files = dict(zip(names, layers, strict=True))
    manifest = [{"Config": "config.json", "RepoTags": [tag], "Layers": names}]
    return archive(
        {
            "config.json": json.dumps({"config": config}).encode(),
            **files,
            "manifest.json": json.dumps(manifest).encode(),
        }
    )


def oci_layout(layers: list[bytes], name: str = "example/app:v1", *, index: bool = False) -> bytes:
    """Return an image as an OCI layout; `index`: one manifest for each platform, after an attestation."""
    blobs: dict[str, bytes] = {}

    def blob(data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"digest": f"sha256:{digest}"}

    config = blob(json.dumps({"config": {"WorkingDir": "/srv"}}).encode())
    row = blob(json.dumps({"config": config, "layers": [blob(each) for each in layers]}).encode())
    if index:
        rows = [{**blob(b"{}"), "platform": {"os": "unknown"}}, {**row, "platform": {"os": "linux"}}]
        row = blob(json.dumps({"manifests": rows}).encode())
    rows = [{**row, "annotations": {"io.containerd.image.name": name}}]
    return archive({"index.json": json.dumps({"manifests": rows}).encode(), **blobs})
