"""What the volumes of a pod contain, as far as this machine can read it."""

import base64
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from fairlead.cluster.objects import ConfigMap
from fairlead.expect.submitted.image_archive import ImageArchive, SavedImage
from fairlead.expect.submitted.named_paths import is_model
from fairlead.manifest.types.program import ConfigMapSource, ProgramPod, ProgramVolume

_MOST_LISTED: Final = 10_000
"""The most files and folders of one volume that are searched."""
_DEEPEST: Final = 8

Key = tuple[str, str]
"""The namespace and name of a ConfigMap."""


@dataclass(frozen=True, slots=True)
class Absent:
    """Why a file cannot be read."""

    reason: str


@dataclass(frozen=True, slots=True)
class ModelContent:
    """A file that can be read: at a path of this machine, or its bytes."""

    source: str
    """For people: `ConfigMap default/models`, `hostPath /data`, `image example/app`."""
    path: str = ""
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class ReadableContents:
    """Everything that may be read to find the models of pods."""

    config_maps: Mapping[Key, ConfigMap] = field(default_factory=dict)
    roots: Mapping[str, str] = field(default_factory=dict)
    """Where the content of a volume lies on this machine, by the volume's name or `namespace/claim`."""
    archives: tuple[ImageArchive, ...] = ()
    own_pods: bool = True
    """The pods are the user's own: a hostPath is read here, and a root may name any volume."""

    def image(self, reference: str) -> SavedImage | None:
        """Return a saved image."""
        found = (archive.find(reference) for archive in self.archives)
        return next((image for image in found if image is not None), None)

    def file(self, pod: ProgramPod, volume: ProgramVolume, path: str) -> ModelContent | Absent:
        """Return a file of a volume, by its path there."""
        if volume.config_maps:
            return self._config_map_file(pod.metadata.namespace, volume, path)
        root = self._root(pod, volume)
        if isinstance(root, Absent):
            return root
        where, folder = root
        if "\0" in path + folder:
            return Absent(f"{where}: no valid path")
        place = os.path.realpath(os.path.join(folder, path)) if path else os.path.realpath(folder)
        if os.path.commonpath((place, os.path.realpath(folder))) != os.path.realpath(folder):
            return Absent(f"{where}: a link leads out of the volume")
        if not os.path.isfile(place):
            return Absent(f"{where}: no such file")
        return ModelContent(where, place)

    def models(self, pod: ProgramPod, volume: ProgramVolume) -> list[str]:
        """Return the model files of a volume, by their paths there."""
        if volume.config_maps:
            return [
                path
                for path, _, _ in self._config_map_files(pod.metadata.namespace, volume)
                if is_model(path)
            ]
        root = self._root(pod, volume)
        return [] if isinstance(root, Absent) or "\0" in root[1] else sorted(_listed(root[1]))

    def _root(self, pod: ProgramPod, volume: ProgramVolume) -> tuple[str, str] | Absent:
        """Return where a volume's content lies on this machine, with words for it."""
        claim = volume.persistent_volume_claim.claim_name if volume.persistent_volume_claim else ""
        names = [f"{pod.metadata.namespace}/{claim}"] if claim else []
        names += [volume.name, *([claim] if claim else [])] if self.own_pods else []
        name = next((each for each in names if each in self.roots), None)
        if name is not None:
            return f"volume {name} at {self.roots[name]}", self.roots[name]
        if volume.host_path and self.own_pods:
            return f"hostPath {volume.host_path.path}", volume.host_path.path
        wanted = names[0] if names else f"{pod.metadata.namespace}/CLAIM"
        kind = "hostPath of a node" if volume.host_path else "content is not known here"
        return Absent(f"volume {volume.name}: {kind}; --volume-root {wanted}=FOLDER says where it lies")

    def _config_map_file(self, namespace: str, volume: ProgramVolume, path: str) -> ModelContent | Absent:
        missing = [each.name for each in volume.config_maps if (namespace, each.name) not in self.config_maps]
        for shown, config_map, key in self._config_map_files(namespace, volume):
            if shown == path:
                source = f"ConfigMap {namespace}/{config_map.metadata.name}"
                return ModelContent(f"{source}, key {key}", data=_value(config_map, key))
        names = ", ".join(f"{namespace}/{each}" for each in missing)
        if missing:
            return Absent(f"ConfigMap {names}: neither in the manifest nor read from a cluster")
        return Absent(f"ConfigMap {', '.join(each.name for each in volume.config_maps)}: no such key")

    def _config_map_files(
        self, namespace: str, volume: ProgramVolume
    ) -> Iterator[tuple[str, ConfigMap, str]]:
        for source in volume.config_maps:
            config_map = self.config_maps.get((namespace, source.name))
            if config_map is not None:
                yield from ((path, config_map, key) for path, key in _shown(config_map, source))


def wanted_config_maps(pods: Iterable[ProgramPod]) -> list[Key]:
    """Return the ConfigMaps that pods mount."""
    keys = (
        (pod.metadata.namespace, source.name)
        for pod in pods
        for volume in pod.spec.volumes
        for source in volume.config_maps
    )
    return list(dict.fromkeys(keys))


def _shown(config_map: ConfigMap, source: ConfigMapSource) -> Iterator[tuple[str, str]]:
    """Yield the files that a volume shows of a ConfigMap, with their keys."""
    keys = (*config_map.data, *config_map.binary_data)
    if not source.items:
        yield from ((key, key) for key in keys)
        return
    yield from ((posixpath.normpath(item.path), item.key) for item in source.items if item.key in keys)


def _value(config_map: ConfigMap, key: str) -> bytes:
    if key in config_map.binary_data:
        with suppress(ValueError):
            return base64.b64decode(config_map.binary_data[key], validate=False)
    return config_map.data.get(key, "").encode("utf-8", "surrogateescape")


def _listed(root: str) -> Iterator[str]:
    """Yield the model files below a folder, without following links to folders."""
    count = 0
    for folder, folders, files in os.walk(root):
        below = os.path.relpath(folder, root)
        if below.count(os.sep) >= _DEEPEST:
            folders.clear()
        for name in files:
            if is_model(name):
                yield posixpath.normpath(posixpath.join(below, name))
        count += len(folders) + len(files)
        if count > _MOST_LISTED:
            return
