"""Paths in a store, as people write them."""

import os
from collections.abc import Iterator, Sequence

from fairlead.errors import DeviceError


def store_path(text: str) -> str:
    """Return a path from the store's root, without a slash before it."""
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts or any(not part.isprintable() for part in parts):
        raise DeviceError(f"{text[:200]!r} is not a path in the store", "write it from the store's root")
    if parts and parts[0] == ".fairlead":
        raise DeviceError(f"{text[:200]}: /.fairlead is the store's own", "choose another folder")
    return "/".join(parts)


def upload_paths(sources: Sequence[str], to: str | None, *, recursive: bool) -> Iterator[tuple[str, str]]:
    """Yield each file to upload with its path in the store.

    One file goes to the path `to`, unless that ends with a slash; several, and folders, go below it.
    """
    single = len(sources) == 1 and not os.path.isdir(sources[0])
    for source in sources:
        name = os.path.basename(os.path.abspath(source))
        if os.path.isdir(source):
            if not recursive:
                raise DeviceError(f"{source}: it is a folder", "add -r to upload all files in it")
            yield from _files_below(source, f"{to or ''}/{name}")
        elif single and to and not to.endswith("/"):
            yield source, store_path(to)
        else:
            yield source, store_path(f"{to or ''}/{name}")


def _files_below(folder: str, to: str) -> Iterator[tuple[str, str]]:
    for root, folders, names in os.walk(folder, onerror=_refuse):
        folders.sort()
        below = os.path.relpath(root, folder)
        for name in sorted(names):
            path = os.path.join(root, name)
            if os.path.isfile(path):  # no pipes, no links that lead nowhere
                yield path, store_path(f"{to}/{below}/{name}")


def _refuse(error: OSError) -> None:
    raise DeviceError(f"{error.filename}: it cannot be read: {error.strerror}")
