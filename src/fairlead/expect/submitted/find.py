"""Find the model files of a pod: the path that a container names leads to a volume or into the image."""

import os
import posixpath
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.expect.submitted.contents import Absent, ModelContent, ReadableContents
from fairlead.expect.submitted.image_archive import SavedImage
from fairlead.expect.submitted.named_paths import NO_CONFIG, expand, is_model, is_url, named_models, variables
from fairlead.manifest.pod.workload_key import accelerator_containers
from fairlead.manifest.types.program import ProgramContainer, ProgramPod, VolumeMount

_LONGEST_NAME: Final = 200
"""The most bytes of the name of a copy; file systems take 255."""


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model file that can be analysed."""

    container: str
    path: str
    """In the container."""
    source: str
    """For people: where it was found."""
    file: str
    """On this machine."""


@dataclass(frozen=True, slots=True)
class TriedPath:
    """A path at which no model was found."""

    container: str
    path: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the document."""
        return {"container": self.container, "path": self.path, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class PodSearch:
    """What was found for a pod, and what was tried."""

    models: tuple[FoundModel, ...] = ()
    tried: tuple[TriedPath, ...] = ()


@dataclass(slots=True)
class ModelSearch:
    """Looks for the models of pods; copies of files go into a scratch folder."""

    contents: ReadableContents
    scratch: str
    _copies: dict[str, ModelContent | Absent] = field(default_factory=dict)
    """By image and path."""

    def search(self, pod: ProgramPod) -> PodSearch:
        """Return the models that the accelerator containers of a pod name or mount."""
        models: list[FoundModel] = []
        tried: list[TriedPath] = []
        for container in accelerator_containers(pod):
            assert isinstance(container, ProgramContainer), "a ProgramPod has no other containers"
            for path, content in self._contents(pod, container):
                if isinstance(content, Absent):
                    tried.append(TriedPath(container.name, path, content.reason))
                else:
                    file = self._local_file(path, content)
                    models.append(FoundModel(container.name, path, content.source, file))
        return PodSearch(tuple(models), tuple(tried))

    def _contents(
        self, pod: ProgramPod, container: ProgramContainer
    ) -> Iterator[tuple[str, ModelContent | Absent]]:
        image = self.contents.image(container.image)
        named = named_models(container, image.config if image else NO_CONFIG)
        contents = [(path, self._named(pod, container, image, path)) for path in named]
        # A named model that cannot be read is missing: another one that is mounted is not the model.
        contents = contents or list(self._mounted(pod, container))
        if not contents:
            yield "", Absent("names no .onnx or .tflite file, and mounts no readable volume with one")
        yield from contents

    def _named(
        self, pod: ProgramPod, container: ProgramContainer, image: SavedImage | None, path: str
    ) -> ModelContent | Absent:
        if is_url(path):
            return Absent("at a URL, which is not fetched")
        mount = max(
            (each for each in container.volume_mounts if _is_below(path, each.mount_path)),
            key=lambda each: len(posixpath.normpath(each.mount_path)),
            default=None,
        )
        if mount is None:
            return self._in_image(container, image, path)
        return self._in_volume(pod, container, mount, path)

    def _in_volume(
        self, pod: ProgramPod, container: ProgramContainer, mount: VolumeMount, path: str
    ) -> ModelContent | Absent:
        volume = next((each for each in pod.spec.volumes if each.name == mount.name), None)
        if volume is None:
            return Absent(f"the pod has no volume {mount.name}")
        sub = _sub_path(container, mount)
        if sub is None:
            return Absent(f"subPathExpr {mount.sub_path_expr}: a variable is not known")
        below = posixpath.relpath(path, posixpath.normpath(mount.mount_path))
        inside = posixpath.normpath(posixpath.join(sub, below))
        if inside.startswith(("..", "/")):
            return Absent("the path leads out of the volume")
        return self.contents.file(pod, volume, "" if inside == "." else inside)

    def _mounted(
        self, pod: ProgramPod, container: ProgramContainer
    ) -> Iterator[tuple[str, ModelContent | Absent]]:
        """Yield the model files of the mounted volumes, under their paths in the container."""
        for mount in container.volume_mounts:
            volume = next((each for each in pod.spec.volumes if each.name == mount.name), None)
            sub = _sub_path(container, mount)
            if volume is None or sub is None:
                continue
            for inside in self.contents.models(pod, volume):
                if _is_below(f"/{inside}", f"/{sub}"):
                    shown = posixpath.relpath(inside, sub or ".")
                    path = posixpath.normpath(posixpath.join(mount.mount_path, shown))
                    # A mount of one file shows it under the name of the mount.
                    if is_model(path):
                        yield path, self.contents.file(pod, volume, inside)

    def _in_image(
        self, container: ProgramContainer, image: SavedImage | None, path: str
    ) -> ModelContent | Absent:
        if image is None:
            return Absent(f"in image {container.image}, of which there is no --image-archive")
        key = f"{container.image} {path}"
        if key not in self._copies:
            self._copies[key] = self._copied(container.image, image, path)
        return self._copies[key]

    def _copied(self, name: str, image: SavedImage, path: str) -> ModelContent | Absent:
        file = self._scratch_file(path)
        with open(file, "wb") as out:
            problem = image.copy(path, out)
        if problem:
            os.unlink(file)
            return Absent(f"image {name}: {problem}")
        return ModelContent(f"image {name}", file)

    def _local_file(self, path: str, content: ModelContent) -> str:
        if content.path:
            return content.path
        file = self._scratch_file(path)
        with open(file, "wb") as out:
            out.write(content.data)
        return file

    def _scratch_file(self, path: str) -> str:
        """Return a new file with the name of the model: the profile carries it."""
        name = posixpath.basename(path).encode("utf-8", "replace")[-_LONGEST_NAME:].decode("utf-8", "ignore")
        return os.path.join(tempfile.mkdtemp(dir=self.scratch), name)


def _is_below(path: str, folder: str) -> bool:
    above = posixpath.normpath(folder)
    return path == above or path.startswith(above if above == "/" else f"{above}/")


def _sub_path(container: ProgramContainer, mount: VolumeMount) -> str | None:
    """Return the part of the volume that is mounted; None where a variable in it is not known."""
    if mount.sub_path_expr:
        return expand(mount.sub_path_expr, variables(container.env))
    return mount.sub_path
