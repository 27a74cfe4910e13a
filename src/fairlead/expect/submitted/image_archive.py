"""Find files in an image that was saved to an archive: `docker save`, or an OCI layout as a tar file.

Layers are read as streams from the top, so that a file of an upper layer hides the same file below, and a
whiteout hides what it removes. Only model files and links are remembered; one file at a time is copied out.
"""

import json
import posixpath
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from fairlead.errors import ManifestError
from fairlead.expect.submitted.named_paths import ImageConfig, is_model
from fairlead.expect.submitted.tarstream import TarMember, TarReader, safe_name, unpacked
from fairlead.manifest.pod.workload_key import reference

MOST_MODEL_BYTES: Final = 8 << 30
"""The largest model that is copied out of an image."""
_MOST_PACKED: Final = 8 << 30
"""The most unpacked bytes of an archive that is compressed as a whole."""
_MOST_JSON: Final = 4 << 20
_MOST_LAYERS: Final = 512
_MOST_LINKS: Final = 40
_MOST_REMEMBERED: Final = 500_000
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_DIGEST: Final = re.compile(r"(sha\d+):([0-9a-f]{16,128})")
_NAMES: Final = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_HINT: Final = "save it again: docker save IMAGE -o FILE"


class _Span:
    """A part of an open file, read like a file."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._start, self._size, self._at = file, start, size, 0

    def read(self, size: int = -1) -> bytes:
        left = self._size - self._at
        self._file.seek(self._start + self._at)
        data = self._file.read(left if size < 0 else min(size, left))
        self._at += len(data)
        return data

    def seek(self, place: int) -> int:
        self._at = place
        return place


@dataclass(frozen=True, slots=True)
class _Entry:
    layer: str
    member: str
    """The member that has the content: of a hard link, its target."""


@dataclass(slots=True)
class _Overlay:
    """What the layers show together, as far as models are concerned."""

    files: dict[str, _Entry] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    """Removed or replaced by an upper layer, with everything below."""
    opaque: set[str] = field(default_factory=set)
    """Folders of which no lower layer shows anything."""
    folders: set[str] = field(default_factory=set)
    """Folders of upper layers: a link of a lower layer with this name is hidden."""

    @property
    def size(self) -> int:
        """How many names are remembered."""
        names = len(self.files) + len(self.links) + len(self.hidden)
        return names + len(self.opaque) + len(self.folders)

    def add(self, layer: str, member: TarMember, below: "_Overlay") -> None:
        """Add a member of a layer; what it hides in lower layers is added to `below`."""
        folder, _, base = member.name.rpartition("/")
        if base == _OPAQUE:
            below.opaque.add(folder)
        elif base.startswith(_WHITEOUT):
            below.hidden.add(posixpath.join(folder, base[len(_WHITEOUT) :]))
        elif member.name and not self._is_hidden(member.name):
            if member.kind == "5":
                below.folders.add(member.name)
            elif member.kind == "2" and member.name not in self.folders:
                self.links.setdefault(member.name, member.link)
                below.hidden.add(member.name)
            elif is_model(base) and member.kind in "01":
                content = member.name if member.kind == "0" else safe_name(member.link)
                self.files.setdefault(member.name, _Entry(layer, content))
                below.hidden.add(member.name)

    def _is_hidden(self, name: str) -> bool:
        above = name
        while True:
            if above in self.hidden:
                return True
            if not above:
                return False
            above = above.rpartition("/")[0]
            if above in self.opaque:
                return True

    def resolve(self, path: str) -> str | None:
        """Return the path of a file after its links; None where they do not end."""
        todo, done = [part for part in path.split("/") if part], ""
        for _ in range(_MOST_LINKS * 64):
            if not todo:
                return done
            part = todo.pop(0)
            if part == "..":
                done = done.rpartition("/")[0]
            elif part != ".":
                name = posixpath.join(done, part)
                target = self.links.get(name)
                if target is None:
                    done = name
                else:
                    done = "" if target.startswith("/") else done
                    todo = [each for each in target.split("/") if each] + todo
        return None


class SavedImage:
    """One image of an archive."""

    def __init__(
        self, archive: "ImageArchive", names: tuple[str, ...], config: str, layers: list[str]
    ) -> None:
        self._archive = archive
        self._layers = layers[:_MOST_LAYERS]
        self._overlay: _Overlay | None = None
        self.names = names
        self.config = _image_config(archive.document(config))

    def copy(self, path: str, out: BinaryIO) -> str:
        """Copy a file of the image; return why that cannot be done, empty where it is done."""
        overlay = self._overlay or self._read_layers()
        self._overlay = overlay
        resolved = overlay.resolve(path)
        entry = overlay.files.get(resolved or "")
        if entry is None:
            return "not in the image"
        reader = TarReader(self._archive.blob(entry.layer), self._archive.path)
        for member in reader:
            if member.name == entry.member and member.kind == "0":
                if member.size > MOST_MODEL_BYTES:
                    return f"{member.size} bytes: larger than {MOST_MODEL_BYTES >> 30} GiB"
                for data in reader.content():
                    out.write(data)
                return ""
        return "a hard link without its target"

    def _read_layers(self) -> _Overlay:
        overlay = _Overlay()
        for layer in reversed(self._layers):
            below = _Overlay()
            for member in TarReader(self._archive.blob(layer), self._archive.path):
                overlay.add(layer, member, below)
                if overlay.size + below.size > _MOST_REMEMBERED:
                    raise ManifestError(f"{self._archive.path}: more links and models than are read", _HINT)
            overlay.hidden |= below.hidden
            overlay.opaque |= below.opaque
            overlay.folders |= below.folders
        return overlay


class ImageArchive:
    """An open archive of images."""

    def __init__(self, path: str, file: BinaryIO, name: str = "") -> None:
        self.path = path
        self._file = file
        self._name = name
        self._places = _places(file, path)
        self.images = tuple(self._images())

    def find(self, image: str) -> SavedImage | None:
        """Return the image of a reference; an archive that was given for one image has no other."""
        if self._name:
            return self.images[0] if _same(self._name, image) and self.images else None
        return next((each for each in self.images if any(_same(name, image) for name in each.names)), None)

    def blob(self, name: str) -> BinaryIO:
        """Return a layer as a tar stream."""
        if name not in self._places:
            raise ManifestError(f"{self.path}: it lacks {name}", _HINT)
        span: Any = _Span(self._file, *self._places[name])
        return unpacked(span, f"{self.path}: {name}")

    def document(self, name: str) -> Any:
        """Return a JSON document of the archive."""
        place, size = self._places.get(name, (0, _MOST_JSON + 1))
        if size > _MOST_JSON:
            raise ManifestError(f"{self.path}: it has no usable {name}", _HINT)
        self._file.seek(place)
        try:
            return json.loads(self._file.read(size))
        except (ValueError, RecursionError) as error:
            raise ManifestError(f"{self.path}: {name}: not JSON: {error}", _HINT) from None

    def _images(self) -> Iterator[SavedImage]:
        try:
            if "manifest.json" in self._places:
                for row in self.document("manifest.json")[:64]:
                    layers = [safe_name(str(layer)) for layer in row["Layers"]]
                    yield SavedImage(self, tuple(map(str, row.get("RepoTags") or ())), row["Config"], layers)
                return
            for row in self.document("index.json")["manifests"][:64]:
                yield from self._oci_image(row)
        except (AttributeError, KeyError, TypeError) as error:
            raise ManifestError(f"{self.path}: not an archive of images ({error})", _HINT) from None

    def _oci_image(self, row: Any, depth: int = 0) -> Iterator[SavedImage]:
        names = tuple(str(text) for key in _NAMES if (text := (row.get("annotations") or {}).get(key)))
        manifest = self.document(_blob(row["digest"]))
        if "manifests" in manifest and depth < 2:
            # An index of platforms: a model does not depend on the processor, so the first one will do.
            rows = [each for each in manifest["manifests"] if _is_platform(each)][:1]
            for each in rows:
                yield from self._oci_image({**each, "annotations": row.get("annotations")}, depth + 1)
            return
        layers = [_blob(layer["digest"]) for layer in manifest["layers"]]
        yield SavedImage(self, names, _blob(manifest["config"]["digest"]), layers)


@contextmanager
def open_archive(text: str) -> Iterator[ImageArchive]:
    """Open `FILE`, or `IMAGE=FILE` for an archive that does not name its image."""
    name, equals, path = text.rpartition("=")
    path = path if equals else text
    try:
        with open(path, "rb") as file, tempfile.TemporaryFile() as scratch:
            plain = unpacked(file, path)
            yield ImageArchive(path, file if plain is file else _unpack(plain, scratch, path), name)
    except OSError as error:
        raise ManifestError(f"--image-archive {path}: {error.strerror or error}", _HINT) from None


def _unpack(packed: BinaryIO, scratch: BinaryIO, path: str) -> BinaryIO:
    size = 0
    while data := packed.read(1 << 20):
        size += len(data)
        if size > _MOST_PACKED:
            raise ManifestError(
                f"{path}: more than {_MOST_PACKED >> 30} GiB unpacked", "unpack it first: gunzip"
            )
        scratch.write(data)
    return scratch


def _places(file: BinaryIO, path: str) -> dict[str, tuple[int, int]]:
    """Return where the members of the archive lie: a layer is read in place."""
    total = file.seek(0, 2)
    file.seek(0)
    places: dict[str, tuple[int, int]] = {}
    links = []
    reader = TarReader(file, path)
    for member in reader:
        if member.kind == "0":
            places[member.name] = (file.tell(), member.size)
            if file.seek(member.size, 1) > total:
                raise ManifestError(f"{path}: it is cut off in {member.name}", _HINT)
            reader.skip_content()
        elif member.kind in "12":
            folder = posixpath.dirname(member.name) if member.kind == "2" else ""
            links.append((member.name, posixpath.normpath(posixpath.join(folder, member.link))))
        if len(places) > _MOST_REMEMBERED:
            raise ManifestError(f"{path}: more files than are read", _HINT)
    # `docker save` stores a layer that two images have as a link.
    return places | {name: places[target] for name, target in links if target in places}


def _same(name: str, image: str) -> bool:
    """Return whether two references are of one image; archives leave out a default registry and folder."""
    shorter, longer = sorted((reference(name), reference(image)), key=len)
    return bool(shorter) and (longer == shorter or longer.endswith(f"/{shorter}"))


def _blob(digest: str) -> str:
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise KeyError(f"the digest {digest[:80]!r}")
    return f"blobs/{match[1]}/{match[2]}"


def _is_platform(row: Any) -> bool:
    return (row.get("platform") or {}).get("os") not in ("unknown", "windows")


def _image_config(document: Any) -> ImageConfig:
    config = document.get("config") or {}
    pairs = (str(text).partition("=") for text in config.get("Env") or ())
    return ImageConfig(
        tuple(map(str, config.get("Entrypoint") or ())),
        tuple(map(str, config.get("Cmd") or ())),
        str(config.get("WorkingDir") or ""),
        {name: value for name, _, value in pairs},
    )
