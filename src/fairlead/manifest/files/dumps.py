"""The archive of `fairlead debug-dump` as an input: the snapshot in it takes the archive's place."""

import io
import tarfile
import zlib
from typing import Final

from fairlead.errors import ManifestError

FORMAT: Final = "fairlead-debug-dump"
VERSION: Final = 1
INDEX: Final = "index.json"
SNAPSHOT: Final = "snapshot.json"
_GZIP: Final = b"\x1f\x8b"
_MOST: Final = 10_000
"""Members that are passed before the snapshot; a dump has it as its second."""
_HINT: Final = "name the archive that fairlead debug-dump wrote; or unpack it first: gunzip"


def is_compressed(data: bytes) -> bool:
    """Return whether a file may be an archive."""
    return data.startswith(_GZIP)


def snapshot_in(name: str, data: bytes, limit: int) -> bytes:
    """Return the snapshot of a dump, at most `limit` bytes of it; ManifestError if there is none."""
    try:
        return _member(name, data, limit)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise ManifestError(f"{name}: compressed, and no dump: {error}", _HINT) from None


def _member(name: str, data: bytes, limit: int) -> bytes:
    passed = 0
    with tarfile.open(fileobj=io.BytesIO(data), mode="r|gz") as archive:
        for count, member in enumerate(archive):
            passed += member.size
            if passed > limit or count > _MOST:
                raise ManifestError(f"{name}: more than {limit >> 20} MiB in it", _HINT)
            if member.name == SNAPSHOT and member.isfile():
                stream = archive.extractfile(member)
                assert stream is not None
                return stream.read()
    raise ManifestError(f"{name}: no {SNAPSHOT} in it", _HINT)
