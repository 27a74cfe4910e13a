"""Take a machine home: exactly the paths that discovery reads, scrubbed, in a tarball that replays.

A recording host notes every path that discovery asks for, so that the tarball holds what is needed and
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
from fairlead.nvml import Gpu
from fairlead.outfile import atomic_write
from fairlead.units import Bytes, Watts

GPUS_FILE: Final = "/fairlead/nvml.json"
"""What NVML said, kept beside the files since no file holds it."""
_MEMBER_LIMIT: Final = 20_000
_TOTAL_LIMIT: Final = 64 * 1024 * 1024
_LINKS_IN_A_PATH: Final = 8
_SCRUBS: Final = (
    (re.compile(rb"(?im)^((?:serial|hardware serial|machine id)[ \t]*:[ \t]*).*$"), rb"\g<1>0"),
    (re.compile(rb"\b(GPU|MIG)-[0-9a-fA-F-]{36}"), rb"\g<1>-00000000-0000-0000-0000-000000000000"),
    (re.compile(rb"\b[0-9a-fA-F]{2}(?:[:-][0-9a-fA-F]{2}){5}\b"), b"00:00:00:00:00:00"),
    (re.compile(rb"(?i)\b(serial(?:[ _-]?(?:number|no))?[ \t]*[=:][ \t]*)[\w-]+"), rb"\g<1>0"),
    (re.compile(rb"(/home/|/Users/)[^/\s]+"), rb"\g<1>user"),
)


class RecordingHost(Host):
    """A host that remembers what was asked of it."""

    def __init__(self, root: str = "/") -> None:
        super().__init__(root)
        self.files: dict[str, bytes] = {}
        self.listed: dict[str, list[str]] = {}
        self.links: dict[str, str] = {}
        self.present: set[str] = set()

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes | None:
        """Read and remember the contents."""
        data = super().read(path, limit)
        if data is not None and len(data) >= len(self.files.get(path, b"")):
            self.files[path] = data
        return data

    def names(self, path: str, pattern: str = "*") -> list[str]:
        """List and remember the names that were asked for, not their neighbours."""
        found = super().names(path, pattern)
        self.listed[path] = sorted({*self.listed.get(path, ()), *found})
        return found

    def folders(self, path: str) -> list[str]:
        """List and remember the folders."""
        found = super().folders(path)
        self.present.update(f"{path}/{name}/" for name in found)
        return found

    def exists(self, path: str) -> bool:
        """Look and remember that it was there."""
        found = super().exists(path)
        if found:
            self.present.add(f"{path}/" if self.is_folder(path) else path)
        return found

    def link(self, path: str) -> str | None:
        """Read a link and remember its last name."""
        target = super().link(path)
        if target is not None:
            self.links[path] = target
        return target

    def is_folder(self, path: str) -> bool:
        """Say whether a folder is there, links followed below the root."""
        real = self._locate(path)
        return real is not None and os.path.isdir(real)

    def resolve(self, path: str) -> str | None:
        """Follow links and remember where they lead."""
        found = super().resolve(path)
        if found is not None and found != path:
            self.links[path] = found
        return found


def scrub(data: bytes) -> bytes:
    """Return file contents without what would identify one machine."""
    for pattern, replacement in _SCRUBS:
        data = pattern.sub(replacement, data)
    return data


def write_capture(
    path: str, look: Callable[[Host], object], host: RecordingHost, gpus: Sequence[Gpu] = ()
) -> int:
    """Let `look` read the host, then write what it read; return the number of entries."""
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
    is a plain tree; only links whose target was itself the question stay links, and what was read through
    one of those is written where it leads.
    """
    for path, entry in _as_read(host):
        yield _behind_links(path, host.links).strip("/"), entry


def _behind_links(path: str, links: Mapping[str, str]) -> str:
    """Return where a path leads once the folders above it that are known to be links are followed."""
    for _ in range(_LINKS_IN_A_PATH):
        ends = [end for end, char in enumerate(path) if char == "/" and path[:end] in links]
        if not ends:
            break
        target = links[path[: ends[0]]]
        if not target.startswith("/"):
            break
        path = target + path[ends[0] :]
    return path


def _as_read(host: RecordingHost) -> Iterator[tuple[str, tuple[bytes, bytes]]]:
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
    """Yield a root folder: `place` itself, or a captured tarball unpacked for as long as it is needed."""
    if os.path.isdir(place):
        yield place
        return
    if not os.path.isfile(place):
        raise CaptureError(
            f"{place}: no such folder or tarball", "name a root folder or a tarball of fairlead capture"
        )
    room = tempfile.mkdtemp(prefix="fairlead-")
    try:
        _unpack(place, room)
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


def check_machine(host: Host, place: str) -> None:
    """Refuse a root that holds nothing of a machine: an empty answer would say that it has no accelerator."""
    if host.live or host.names("/proc") or host.names("/sys") or host.exists(GPUS_FILE):
        return
    raise CaptureError(
        f"{place}: not the root of a machine: nothing is below its proc or sys",
        "a root holds the machine's /proc and /sys, device tree included: "
        "name a tarball of fairlead capture, or a folder that one was unpacked to",
    )


def _unpack(path: str, room: str) -> None:
    """Unpack a stranger's tarball: bounded, below `room` only, never writing through a link.

    Links come last and the deepest first: what lies below a link is there, in a real folder, before it.
    """
    links: list[tuple[str, str]] = []
    total = 0
    try:
        with tarfile.open(fileobj=_inflated(path), mode="r:") as tar:
            for number, info in enumerate(tar):
                total += max(0, info.size)
                if number >= _MEMBER_LIMIT or total > _TOTAL_LIMIT:
                    raise _too_large(path)
                target = os.path.join(room, os.path.normpath(f"/{info.name}").lstrip("/"))
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


def _inflated(path: str) -> io.BytesIO:
    """Return the plain tar of a file, in memory and no larger than a capture can be.

    A tar reader would believe whatever size a header claims; here nothing is read beyond the limit.
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
    """Return what NVML said when the host was captured; a file of no use becomes a problem of the host."""
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
    )


def _amount(value: object) -> float | None:
    """Return a number that can be true of a GPU."""
    return value if isinstance(value, int | float) and 0 <= value < 1e18 else None
