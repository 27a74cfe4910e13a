"""Untrusted tarballs: refused with a reason or unpacked below their own root, never anything else."""

import gzip
import io
import os
import random
import resource
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings

from fairlead.detect import detect
from fairlead.detect.capture import open_capture
from fairlead.errors import CaptureError
from fairlead.host import Host
from tests import catalogs, strategies
from tests.soundness import assert_sound
from tests.worlds import X86

Member = tuple[str, bytes, bytes | str]
"""A name, a type, and contents or the target of a link."""
FILE, HARD, LINK, CHARACTERS, FOLDER, FIFO = b"0", b"1", b"2", b"3", b"5", b"6"


def tarball(*members: Member, form: int = tarfile.GNU_FORMAT) -> bytes:
    """Return a tarball with members of any name."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", format=form) as tar:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if isinstance(content, str):
                info.linkname = content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def header(name: str, kind: bytes, size: int) -> bytes:
    """Return a tar header that claims a size."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[[bytes], dict[str, bytes]]:
    """Unpack a tarball and return the regular files that discovery could read in it."""

    def unpack(data: bytes) -> dict[str, bytes]:
        file = tmp_path / "machine.tar.gz"
        file.write_bytes(data)
        with open_capture(str(file)) as root:
            host = Host(root)
            places = [place for place, _, _ in os.walk(root)]
            paths = [f"{place}/{name}"[len(root) :] for place in places for name in os.listdir(place)]
            return {path: content for path in paths if (content := host.read(path)) is not None}

    return unpack


Unpacked = Callable[[bytes], dict[str, bytes]]


def test_a_valid_tarball_is_unpacked_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "machine.tar.gz"
    file.write_bytes(tarball(("proc/cpuinfo", FILE, X86.encode())))
    with open_capture(str(file)) as root:
        assert Path(root, "proc/cpuinfo").read_text() == X86
    assert not os.path.exists(root)


@pytest.mark.parametrize(
    "name", ["../evil", "/evil", "a/../../evil", "//evil", "./../evil", "a/b/../../../../evil"]
)
def test_names_stay_below_the_root(unpacked: Unpacked, tmp_path: Path, name: str) -> None:
    before = sorted(os.listdir(tmp_path)), sorted(os.listdir("/"))
    assert unpacked(tarball((name, FILE, b"x"))) == {"/evil": b"x"}
    assert (sorted(set(os.listdir(tmp_path)) - {"machine.tar.gz"}), sorted(os.listdir("/"))) == before


@pytest.mark.parametrize(
    "members",
    [
        [("a", LINK, "{outside}"), ("a/evil", FILE, b"x")],
        [("a", LINK, "{outside}"), ("a/evil", LINK, "x")],
        [("a", LINK, "{outside}"), ("a/b/evil", LINK, "x")],
        [("a", LINK, "{outside}"), ("a/evil", FOLDER, b"")],
        [("a", LINK, "../../../../../../../..{outside}"), ("a/evil", FILE, b"x")],
        [("a", LINK, "b"), ("b", LINK, "{outside}"), ("a/evil", LINK, "x"), ("b/evil", LINK, "x")],
        [("a", HARD, "{outside}/secret"), ("a", FILE, b"x")],
        [("a/b", LINK, "{outside}"), ("a/b/c/d", LINK, "x"), ("a/b/evil", FILE, b"x")],
    ],
)
def test_nothing_is_written_through_a_link(unpacked: Unpacked, tmp_path: Path, members: list[Member]) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    filled = [(n, k, c.format(outside=outside) if isinstance(c, str) else c) for n, k, c in members]
    with suppress(CaptureError):
        assert b"secret" not in unpacked(tarball(*filled)).values()
    assert os.listdir(outside) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


@pytest.mark.parametrize("kind", [CHARACTERS, b"4", FIFO, b"7", b"S"])
def test_devices_and_pipes_are_not_created(unpacked: Unpacked, kind: bytes) -> None:
    files = unpacked(tarball(("dev/null", kind, b""), ("proc/cpuinfo", FILE, b"x")))
    assert files["/proc/cpuinfo"] == b"x"
    assert set(files) <= {"/proc/cpuinfo", "/dev/null"}


WHOLE = tarball(("a", FILE, random.Random(1).randbytes(200_000)))
LONG_NAME = header("x", b"L", 4) + b"abcd".ljust(512, b"\0")
ODD: dict[str, bytes] = {
    "empty": b"",
    "text": b"not a tar at all",
    "two bytes of gzip": b"\x1f\x8b",
    "gzip of nothing": b"\x1f\x8b\x08" + bytes(50),
    "cut in the middle": WHOLE[:100_000],
    "cut in the header": WHOLE[:20],
    "bytes changed": WHOLE[:5000] + bytes(100) + WHOLE[5100:],
    "gzip of text": gzip.compress(b"not a tar either" * 100),
    "a file below a file": tarball(("a", FILE, b"x"), ("a/b", FILE, b"x")),
    "a link below a file": tarball(("a", FILE, b"x"), ("a/b", LINK, "x")),
    "a name too long": tarball(("x" * 300, FILE, b"x")),
    "no name": tarball(("", FILE, b"x")),
    "a link to nothing": tarball(("a", LINK, "")),
    "a link to itself": tarball(("a", LINK, "a"), ("b", LINK, ".")),
    "a NUL in a name": tarball(("a\0b", FILE, b"x"), form=tarfile.PAX_FORMAT),
    "a NUL in a target": tarball(("a", LINK, "b\0c"), form=tarfile.PAX_FORMAT),
    "a long name and no file": gzip.compress(LONG_NAME),
    "long names without end": gzip.compress(LONG_NAME * 3000),
    "a size beyond all bounds": gzip.compress(header("a", FILE, 2**62) + bytes(2048)),
    "a header beyond all bounds": gzip.compress(header("a", b"x", 2**50) + bytes(2048)),
    "a negative size": gzip.compress(header("a", FILE, -512) + bytes(2048)),
    "a negative header": gzip.compress(header("a", b"x", -512) + bytes(2048)),
    "less than it says": gzip.compress(header("a", FILE, 100) + bytes(40)),
}


@pytest.mark.parametrize("odd", ODD)
def test_an_invalid_capture_is_refused_or_harmless(unpacked: Unpacked, odd: str) -> None:
    refusal: CaptureError | None = None
    try:
        assert len(unpacked(ODD[odd])) <= 2
    except CaptureError as error:
        refusal = error
    assert refusal is None or ("machine.tar.gz" in str(refusal) and refusal.hint)


SIZE = 80 * 2**20
BOMBS: dict[str, Callable[[], Iterable[bytes]]] = {
    "file": lambda: [header("a", FILE, SIZE), bytes(SIZE)],
    "pax header": lambda: [header("a", b"x", SIZE), bytes(SIZE)],
    "long name": lambda: [header("a", b"L", SIZE), bytes(SIZE)],
    "files": lambda: (header(f"f{n}", FILE, 2**20) + bytes(2**20) for n in range(80)),
    "members": lambda: (header(f"f{n}", FILE, 0) for n in range(21_000)),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_decompression_bomb_is_refused(unpacked: Unpacked, bomb: str) -> None:
    data = gzip.compress(b"".join(BOMBS[bomb]()), 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    with pytest.raises(CaptureError, match="larger than a captured host can be"):
        unpacked(data)
    assert time.process_time() - start < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


def test_a_decompression_bomb_is_read_to_the_limit(unpacked: Unpacked) -> None:
    """The header claims eight gigabytes, and the data for them exists, but it is not unpacked."""
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1) as pack:
        pack.write(header("a", b"x", 2**33))
        for _ in range(300):
            pack.write(bytes(2**20))
    with pytest.raises(CaptureError):
        unpacked(stream.getvalue())


@settings(max_examples=300)
@given(strategies.tarballs())
def test_any_tarball_is_refused_or_gives_a_valid_inventory(data: bytes) -> None:
    small = catalogs.small()
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        file.write(data)
        file.flush()
        with suppress(CaptureError), open_capture(file.name) as root:
            assert_sound(detect(Host(root), small), small)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CaptureError), open_capture(str(tmp_path / "pipe")):
        pass
