"""Files as documents: JSON, YAML, or the snapshot of a dump; bounded in size; every error names the file."""

import io
import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from fairlead.errors import ManifestError
from fairlead.manifest.files import dumps
from fairlead.yamltext import BadYamlError, parse_documents


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Limits on the size of a file."""

    json: int = 256 << 20
    """Bytes: about 20,000 pods, as kubectl prints them."""
    json_values: int = 12_000_000
    """Brackets, braces and commas: the memory of a parsed document grows with its values, not its bytes."""
    yaml: int = 8 << 20
    """Bytes. Parsing YAML takes a hundred times as long as parsing JSON."""


LIMITS: Final = FileLimits()
STDIN: Final = "-"
_SMALLER: Final = "leave out objects that are not needed, or take a snapshot: fairlead snapshot --out FILE"
_HINT: Final = "name a readable YAML or JSON file, or - for the standard input"


def read(path: str, limits: FileLimits = LIMITS) -> list[tuple[str, Any]]:
    """Return the documents of a file, each with a name for messages; empty documents are left out."""
    return read_with_bytes(path, limits)[1]


def read_with_bytes(path: str, limits: FileLimits = LIMITS) -> tuple[bytes, list[tuple[str, Any]]]:
    """Return the content of a file, and its documents."""
    name = "standard input" if path == STDIN else path
    data = _bytes(path, name, limits)
    return data, _named_documents(name, data, limits)


def _named_documents(name: str, data: bytes, limits: FileLimits) -> list[tuple[str, Any]]:
    values = list(_documents(name, data, limits))
    many = len(values) > 1
    named = [(f"{name}: document {at}" if many else name, value) for at, value in enumerate(values, 1)]
    return [(where, value) for where, value in named if value is not None]


def read_one(path: str) -> tuple[str, Any]:
    """Return the one document of a file."""
    read_documents = read(path)
    if len(read_documents) != 1:
        name = "standard input" if path == STDIN else path
        raise ManifestError(
            f"{name}: {len(read_documents)} documents instead of one", "check that it is the right file"
        )
    return read_documents[0]


def _bytes(path: str, name: str, limits: FileLimits) -> bytes:
    try:
        if path == STDIN:
            return _bounded(sys.stdin.buffer, name, limits)
        # A device may never end, and a socket may never be written to.
        if not stat.S_ISREG(os.stat(path).st_mode) and not stat.S_ISFIFO(os.stat(path).st_mode):
            raise ManifestError(f"{name}: not a file", _HINT)
        with open(path, "rb") as stream:
            return _bounded(stream, name, limits)
    except OSError as error:
        raise ManifestError(f"{name}: {error.strerror}", _HINT) from None
    except ValueError as error:  # a path with a NUL
        raise ManifestError(f"{name!r}: {error}", _HINT) from None


def _bounded(stream: BinaryIO | io.BufferedReader, name: str, limits: FileLimits) -> bytes:
    start = stream.read(limits.yaml + 1)
    if dumps.is_compressed(start):
        start = dumps.snapshot_in(name, start + stream.read(limits.json - len(start) + 1), limits.json)
        return _checked(start, name, limits)
    if len(start) <= limits.yaml:
        return start
    if not _json(start):
        hint = f"write it as JSON (kubectl get -o json): up to {_size(limits.json)} of JSON are read"
        raise ManifestError(f"{name}: more than {_size(limits.yaml)} of YAML", hint)
    return _checked(start + stream.read(limits.json - len(start) + 1), name, limits)


def _checked(whole: bytes, name: str, limits: FileLimits) -> bytes:
    """Return the bytes of a large document of JSON, if it is not too large."""
    if len(whole) > limits.json:
        raise ManifestError(f"{name}: more than {_size(limits.json)}", _SMALLER)
    if sum(map(whole.count, (b",", b"{", b"["))) > limits.json_values:
        raise ManifestError(f"{name}: more than {limits.json_values:,} values", _SMALLER)
    return whole


def _size(limit: int) -> str:
    return f"{limit >> 20} MiB"


def _json(data: bytes) -> bool:
    return data[:64].lstrip()[:1] in (b"{", b"[")


def _documents(name: str, data: bytes, limits: FileLimits) -> Iterator[Any]:
    if b"\0" in data[:4096]:
        raise ManifestError(f"{name}: not text", _HINT)
    json_error: Exception | None = None
    if _json(data):
        try:
            yield json.loads(data)
            return
        except (ValueError, RecursionError) as error:
            json_error = error  # YAML may begin with a brace as well
    if json_error is not None and len(data) > limits.yaml:
        raise ManifestError(f"{name}: not JSON: {json_error}")
    try:
        yield from parse_documents(data)
    except BadYamlError as error:
        problem = f"neither JSON ({json_error}) nor YAML" if json_error else "not YAML"
        raise ManifestError(
            f"{name}: {problem}: {error}", "write a Kubernetes manifest or the short form"
        ) from None
