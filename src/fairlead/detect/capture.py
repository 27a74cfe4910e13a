"""Capture a machine: exactly the paths that discovery reads, scrubbed, in a tarball that can be replayed.

A recording host records every path that discovery reads, so that the tarball contains what is needed and
nothing else. Serial numbers, MAC addresses and unique ids are replaced before they are written.
"""

import gzip
import io
import json
import os
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Final

from fairlead.errors import CaptureError
from fairlead.host import READ_LIMIT, Host, printable
from fairlead.nvml import Gpu, MigInstance
from fairlead.outfile import atomic_write
from fairlead.units import Bytes, Watts

GPUS_FILE: Final = "/fairlead/nvml.json"
"""NVML's GPUs, stored as a file of its own: no file of the machine holds them."""
_MEMBER_LIMIT: Final = 20_000
_TOTAL_LIMIT: Final = 64 * 1024 * 1024
_LINKS_IN_A_PATH: Final = 8
_MOST_INSTANCES: Final = 64
"""MIG instances of one GPU."""
_SCRUBS: Final = (
    (re.compile(rb"(?im)^((?:serial|hardware serial|machine id)[ \t]*:[ \t]*).*$"), rb"\g<1>0"),
    (re.compile(rb"\b(GPU|MIG)-[0-9a-fA-F-]{36}"), rb"\g<1>-00000000-0000-0000-0000-000000000000"),
    (re.compile(rb"\b[0-9a-fA-F]{2}(?:[:-][0-9a-fA-F]{2}){5}\b"), b"00:00:00:00:00:00"),
    (re.compile(rb"(?i)\b(serial(?:[ _-]?(?:number|no))?[ \t]*[=:][ \t]*)[\w-]+"), rb"\g<1>0"),
    (re.compile(rb"(/home/|/Users/)[^/\s]+"), rb"\g<1>user"),
)


class RecordingHost(Host):
    """A host that records what is read from it."""

    def __init__(self, root: str = "/") -> None:
        super().__init__(root)
        self.files: dict[str, bytes] = {}
        self.listed: dict[str, list[str]] = {}
        self.links: dict[str, str] = {}
        self.present: set[str] = set()

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes | None:
        """Read a file and record the contents."""
        data = super().read(path, limit)
        if data is not None and len(data) >= len(self.files.get(path, b"")):
            self.files[path] = data
        return data

    def names(self, path: str, pattern: str = "*") -> list[str]:
        """List a folder and record the matching names, not their neighbours."""
        names = super().names(path, pattern)
        self.listed[path] = sorted({*self.listed.get(path, ()), *names})
        return names

    def folders(self, path: str) -> list[str]:
        """List and record the folders."""
        names = super().folders(path)
        self.present.update(f"{path}/{name}/" for name in names)
        return names

    def exists(self, path: str) -> bool:
        """Check a path and record that it exists."""
        exists = super().exists(path)
        if exists:
            self.present.add(f"{path}/" if self.is_folder(path) else path)
        return exists

    def link(self, path: str) -> str | None:
        """Read a link and record the last component of its target."""
        target = super().link(path)
        if target is not None:
            self.links[path] = target
        return target

    def is_folder(self, path: str) -> bool:
        """Return whether the path is a folder, with links followed below the root."""
        real = self._locate(path)
        return real is not None and os.path.isdir(real)

    def resolve(self, path: str) -> str | None:
        """Follow links and record where they lead."""
        target = super().resolve(path)
        if target is not None and target != path:
            self.links[path] = target
        return target


def scrub(data: bytes) -> bytes:
    """Return file contents without data that identifies one machine."""
    for pattern, replacement in _SCRUBS:
        data = pattern.sub(replacement, data)
    return data


def write_capture(
    path: str, look: Callable[[Host], object], host: RecordingHost, gpus: Sequence[Gpu] = ()
) -> int:
    """Let `look` read the host, then write what it has read; return the number of entries."""
    look(host)
    if gpus:
        host.files[GPUS_FILE] = json.dumps([asdict(gpu) for gpu in gpus], indent=1).encode()
    entries = dict(_entries(host))
    try:
        with atomic_write(path) as out, tarfile.open(fileobj=out, mode="w:gz", compresslevel=6) as tar:
            for name, (kind, content) in sorted(entries.items()):
                tar.addfile(*_member(name, kind, content))
    except OSError as error:
        raise CaptureError(
            f"{path}: {error.strerror}", "name a file in a folder that you may write to"
        ) from None
    return len(entries)


def _entries(host: RecordingHost) -> Iterator[tuple[str, tuple[bytes, bytes]]]:
    """Yield the tar's entries: folders, links as links, files scrubbed, device nodes as empty files.

    A path read through a link (`/sys/bus/pci/devices/X/vendor`) is written as it was read, so the tarball
    is a plain tree. Only links whose target discovery asked for stay links; a path read through one of those
    is written below the link's target.
    """
    for path, entry in _recorded_entries(host):
        yield _follow_links(path, host.links).strip("/"), entry


def _follow_links(path: str, links: Mapping[str, str]) -> str:
    """Return where a path leads after the known links among its parent folders are followed."""
    for _ in range(_LINKS_IN_A_PATH):
        ends = [end for end, char in enumerate(path) if char == "/" and path[:end] in links]
        if not ends:
            break
        target = links[path[: ends[0]]]
        if not target.startswith("/"):
            break
        path = target + path[ends[0] :]
    return path


def _recorded_entries(host: RecordingHost) -> Iterator[tuple[str, tuple[bytes, bytes]]]:
    for folder, names in host.listed.items():
        if names:
            yield folder, (tarfile.DIRTYPE, b"")
        for name in names:
            path = f"{folder}/{name}"
            if path not in host.files and path not in host.links and not host.is_folder(path):
                yield path, (tarfile.REGTYPE, b"")
            elif path not in host.files and path not in host.links:
                yield path, (tarfile.DIRTYPE, b"")
    for path in host.present:
        kind = tarfile.DIRTYPE if path.endswith("/") else tarfile.REGTYPE
        yield path.rstrip("/"), (kind, b"")
    for path, data in host.files.items():
        yield path, (tarfile.REGTYPE, scrub(data))
    for path, target in host.links.items():
        yield path, (tarfile.SYMTYPE, target.encode("utf-8", "surrogateescape"))


def _member(name: str, kind: bytes, content: bytes) -> tuple[tarfile.TarInfo, io.BytesIO | None]:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
    if kind == tarfile.SYMTYPE:
        info.linkname = content.decode("utf-8", "surrogateescape")
        return info, None
    info.size = len(content)
    return info, io.BytesIO(content) if kind == tarfile.REGTYPE else None


@contextmanager
def open_capture(place: str) -> Iterator[str]:
    """Yield a root folder: `place` itself, or a captured tarball unpacked for the time of the block."""
    if os.path.isdir(place):
        yield place
        return
    if not os.path.isfile(place):
        raise CaptureError(
            f"{place}: no such folder or tarball", "name a root folder or a tarball of fairlead capture"
        )
    root = tempfile.mkdtemp(prefix="fairlead-")
    try:
        _unpack(place, root)
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def check_machine(host: Host, place: str) -> None:
    """Refuse a root without any file of a machine: an empty inventory would mean no accelerator."""
    if host.live or host.names("/proc") or host.names("/sys") or host.exists(GPUS_FILE):
        return
    raise CaptureError(
        f"{place}: not the root of a machine: its proc and sys are empty or missing",
        "a root contains the machine's /proc and /sys, device tree included: "
        "name a tarball of fairlead capture, or a folder to which one was unpacked",
    )


def _unpack(path: str, root: str) -> None:
    """Unpack an untrusted tarball: bounded, below `root` only, never writing through a link.

    Links are created last and the deepest first: the files below a link's path exist before the link.
    """
    links: list[tuple[str, str]] = []
    total = 0
    try:
        with tarfile.open(fileobj=_decompress(path), mode="r:") as tar:
            for number, info in enumerate(tar):
                total += max(0, info.size)
                if number >= _MEMBER_LIMIT or total > _TOTAL_LIMIT:
                    raise _too_large(path)
                target = os.path.join(root, os.path.normpath(f"/{info.name}").lstrip("/"))
                if info.isdir():
                    os.makedirs(target, exist_ok=True)
                elif info.isfile() and (stream := tar.extractfile(info)):
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    with open(target, "wb") as out:
                        out.write(stream.read(READ_LIMIT * 16))
                elif info.issym():
                    links.append((target, info.linkname))
        for target, linkname in sorted(links, key=lambda link: -link[0].count("/")):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if not os.path.lexists(target):
                os.symlink(linkname, target)
    except (tarfile.TarError, zlib.error, OSError, EOFError, ValueError, RecursionError) as error:
        raise CaptureError(f"{path}: not a readable tarball: {error}", "is it a fairlead capture?") from None


def _decompress(path: str) -> io.BytesIO:
    """Return the uncompressed tar of a file, in memory and no larger than a capture can be.

    A tar reader trusts the size that a header claims; here nothing is read beyond the limit.
    """
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        data = (gzip.GzipFile(fileobj=file) if packed else file).read(_TOTAL_LIMIT + 1)
    if len(data) > _TOTAL_LIMIT:
        raise _too_large(path)
    return io.BytesIO(data)


def _too_large(path: str) -> CaptureError:
    return CaptureError(f"{path}: larger than a captured host can be", "is it a fairlead capture?")


def read_gpus(host: Host) -> list[Gpu]:
    """Return NVML's GPUs at the time of the capture; an invalid file becomes a problem of the host."""
    data = None if host.here else host.read(GPUS_FILE)
    if not data:
        return []
    try:
        return [_gpu(row) for row in json.loads(data)]
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        host.add_problem(GPUS_FILE, f"not what fairlead capture writes: {type(error).__name__}")
        return []


def _gpu(row: dict[str, object]) -> Gpu:
    memory, power, errors = (_amount(row[key]) for key in ("memory", "power_limit", "ecc_errors"))
    return Gpu(
        index=int(str(row["index"])),
        address=printable(str(row["address"])),
        name=printable(str(row["name"])),
        uuid=printable(str(row["uuid"])),
        memory=None if memory is None else Bytes(round(memory)),
        power_limit=None if power is None else Watts(power),
        driver_version=printable(str(row["driver_version"])),
        ecc_errors=None if errors is None else round(errors),
        remap_failed=None if row.get("remap_failed") is None else row["remap_failed"] is True,
        lost=row.get("lost") is True,
        mig_enabled=row.get("mig_enabled") is True,
        instances=tuple(_instance(each) for each in _rows(row.get("instances"))),
        multiprocessors=_count(row.get("multiprocessors")),
        most_instances=_count(row.get("most_instances")),
    )


def _instance(row: dict[str, object]) -> MigInstance:
    memory = _amount(row["memory"])
    return MigInstance(
        index=int(str(row["index"])),
        uuid=printable(str(row["uuid"])),
        name=printable(str(row["name"])),
        gpu_instance=int(str(row["gpu_instance"])),
        compute_instance=int(str(row["compute_instance"])),
        memory=None if memory is None else Bytes(round(memory)),
        multiprocessors=_count(row.get("multiprocessors")),
        slices=_count(row.get("slices")),
    )


def _rows(value: object) -> list[dict[str, object]]:
    return value[:_MOST_INSTANCES] if isinstance(value, list) else []


def _count(value: object) -> int | None:
    number = _amount(value)
    return None if number is None else round(number)


def _amount(value: object) -> float | None:
    """Return a number in the range that a GPU can have."""
    return value if isinstance(value, int | float) and 0 <= value < 1e18 else None
