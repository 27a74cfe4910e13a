"""Files as documents: JSON or YAML, bounded in size, every complaint with the file's name."""

import io
import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from fairlead.errors import ManifestError
from fairlead.yamltext import BadYamlError, documents


@dataclass(frozen=True, slots=True)
class FileLimits:
    """How much of a file is read."""

    json: int = 256 << 20
    """Bytes: some 20,000 pods, as kubectl prints them."""
    json_values: int = 12_000_000
    """Brackets, braces and commas: what a text becomes in memory grows with its values, not its bytes."""
    yaml: int = 8 << 20
    """Bytes. YAML is read a hundred times slower than JSON."""


LIMITS: Final = FileLimits()
STDIN: Final = "-"
_SMALLER: Final = "leave out what is not needed, or take a snapshot: fairlead snapshot --out FILE"
_HINT: Final = "name a readable YAML or JSON file, or - for the standard input"


def read(path: str, limits: FileLimits = LIMITS) -> list[tuple[str, Any]]:
    """Return the documents of a file, each with a name to say where it is; empty documents are left out."""
    name = "standard input" if path == STDIN else path
    found = list(_documents(name, _bytes(path, name, limits), limits))
    many = len(found) > 1
    named = [(f"{name}: document {at}" if many else name, value) for at, value in enumerate(found, 1)]
    return [(where, value) for where, value in named if value is not None]


def read_one(path: str) -> tuple[str, Any]:
    """Return the one document of a file."""
    found = read(path)
    if len(found) != 1:
        name = "standard input" if path == STDIN else path
        raise ManifestError(f"{name}: {len(found)} documents where one is wanted", "is it the right file?")
    return found[0]


def _bytes(path: str, name: str, limits: FileLimits) -> bytes:
    try:
        if path == STDIN:
            return _bounded(sys.stdin.buffer, name, limits)
        # Not a pipe that nobody writes to, nor a device that never ends.
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
    if len(start) <= limits.yaml:
        return start
    if not _json(start):
        hint = f"write it as JSON (kubectl get -o json): up to {_size(limits.json)} of it are read"
        raise ManifestError(f"{name}: more than {_size(limits.yaml)} of YAML", hint)
    whole = start + stream.read(limits.json - len(start) + 1)
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
    if data[:2] == b"\x1f\x8b":
        raise ManifestError(f"{name}: compressed", "unpack it first: gunzip")
    if b"\0" in data[:4096]:
        raise ManifestError(f"{name}: not text", _HINT)
    flaw: Exception | None = None
    if _json(data):
        try:
            yield json.loads(data)
            return
        except (ValueError, RecursionError) as error:
            flaw = error  # YAML may begin with a brace as well
    if flaw is not None and len(data) > limits.yaml:
        raise ManifestError(f"{name}: not JSON: {flaw}")
    try:
        yield from documents(data)
    except BadYamlError as error:
        what = f"neither JSON ({flaw}) nor YAML" if flaw else "not YAML"
        raise ManifestError(f"{name}: {what}: {error}", "a file of Kubernetes or of the short form") from None
