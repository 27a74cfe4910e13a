"""The host: whatever is below the root, a read is bounded, stays inside and never raises."""

import os
import socket
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.host import LIST_LIMIT, READ_LIMIT, Host, printable
from tests.worlds import Entry, Link, Sparse, Special, World, build

SECRET = b"not for strangers"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Write a file outside the root; the root is `tmp_path / "root"`."""
    place = tmp_path / "secret"
    place.write_bytes(SECRET)
    return place


def test_files_text_numbers_and_lists_are_read(world: World) -> None:
    host = world(
        {
            "/text": " two words \n\0",
            "/decimal": "0012\n",
            "/hexadecimal": "0x1f\n",
            "/bare": "1ac1\n",
            "/list": "first\0second\0",
            "/folder/b": "",
            "/folder/a/x": "",
        }
    )
    assert host.text("/text") == "two words"
    assert host.number("/decimal") == 12
    assert host.number("/hexadecimal") == 31
    assert host.hexadecimal("/hexadecimal") == 31
    assert host.hexadecimal("/bare") == 0x1AC1
    assert host.strings("/list") == ("first", "second")
    assert host.names("/folder") == ["a", "b"]
    assert host.folders("/folder") == ["a"]
    assert host.exists("/folder")
    assert host.problems == ()


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (Special.FOLDER, "not a regular file"),
        (Special.FIFO, "not a regular file"),
        (Special.SOCKET, "not a regular file"),
        (Link("/file"), "too many levels of symbolic links"),
        (Link("nowhere"), None),
    ],
)
def test_a_non_regular_file_reads_as_none_with_a_reason(world: World, entry: Entry, why: str | None) -> None:
    host = world({"/file": entry})
    assert host.read("/file") is None
    assert host.text("/file") is None
    assert host.number("/file") is None
    assert host.hexadecimal("/file") is None
    assert host.strings("/file") == ()
    assert host.problems == (() if why is None else (f"/file: {why}",))


def test_an_absent_file_is_no_problem(world: World) -> None:
    host = world({"/file": ""})
    for path in ("/none", "/none/deeper", "/file/below"):
        assert host.read(path) is None
        assert host.names(path) == []
        assert host.folders(path) == []
        assert host.link(path) is None
        assert host.resolve(path) is None
        assert not host.exists(path)
    assert host.problems == ()


@pytest.mark.parametrize(
    "target", ["{secret}", "../secret", "../../../../../../../../{secret}", "a/../../secret"]
)
def test_a_link_out_of_the_root_resolves_inside_it(world: World, secret: Path, target: str) -> None:
    host = world({"/leak": Link(target.format(secret=secret)), "/a/b": ""})
    assert os.path.exists(host.root + "/leak") or "a/.." in target  # the kernel would have followed it
    assert host.read("/leak") is None
    assert not host.exists("/leak")
    build(host.root, {str(secret): b"inside", "/secret": b"inside"})
    assert host.read("/leak") == b"inside"


def test_a_folder_linked_out_of_the_root_hides_the_outside(world: World, secret: Path) -> None:
    host = world({"/folder": Link(str(secret.parent)), "/up": Link("../..")})
    for folder in ("/folder", "/up", "/up/up", "/folder/.."):
        assert host.read(f"{folder}/secret") is None
        assert "secret" not in host.names(folder)
        assert host.resolve(f"{folder}/secret") is None
    assert host.read("/../secret") is None


def test_links_inside_the_root_are_followed(world: World) -> None:
    host = world(
        {
            "/sys/devices/x/vendor": "1\n",
            "/sys/bus/x": Link("../devices/x"),
            "/absolute": Link("/sys/bus"),
            "/sys/devices/x/driver": Link("../../drivers/apex"),
        }
    )
    assert host.number("/absolute/x/vendor") == 1
    assert host.resolve("/absolute/x") == "/sys/devices/x"
    assert host.link("/absolute/x/driver") == "apex"
    assert host.link("/sys/bus/x") == "x"


@pytest.mark.parametrize("length", [1, 2, 39, 60])
def test_a_cycle_of_links_ends(world: World, length: int) -> None:
    host = world({f"/l{n}": Link(f"/l{(n + 1) % length}") for n in range(length)})
    assert host.read("/l0") is None
    assert host.names("/l0") == []
    assert host.names("/l0/l0") == []
    assert host.problems[0].endswith("too many levels of symbolic links")


def test_links_with_many_components_end_soon(world: World) -> None:
    """Forty links of two thousand components each must not be followed component by component."""
    many = "x/" * 2000
    host = world({f"/l{n}": Link(f"l{n + 1}/{many}") for n in range(39)} | {"/l39": Link(many)})
    start = time.process_time()
    assert host.read("/l0") is None
    assert time.process_time() - start < 1


def test_a_huge_file_is_read_from_its_start_only(world: World) -> None:
    host = world({"/huge": Sparse(2**30)})
    assert host.read("/huge") == bytes(READ_LIMIT)
    assert host.text("/huge") == ""
    assert host.number("/huge") is None


def test_a_huge_folder_is_listed_to_a_limit_with_a_problem(world: World) -> None:
    host = world({f"/many/{n}": "" for n in range(LIST_LIMIT + 10)})
    assert len(host.names("/many")) == LIST_LIMIT
    assert host.problems == (f"/many: more than {LIST_LIMIT} entries: the rest is ignored",)


def test_problems_are_bounded(world: World) -> None:
    host = world({f"/f{n}": Special.FIFO for n in range(100)})
    for n in range(100):
        host.read(f"/f{n}")
    assert 10 <= len(host.problems) <= 60


@pytest.mark.parametrize(
    "path", ["/a\0b", "/a\0/b", "/" + "x" * 5000, "/x" * 3000, "/\udcff\udc80", "", "/", "relative"]
)
@pytest.mark.parametrize("root", ["own", "/"])
def test_any_path_can_be_read(world: World, path: str, root: str) -> None:
    host = world({"/file": ""}) if root == "own" else Host(root)
    host.read(path)
    host.text(path)
    host.number(path)
    host.names(path)
    host.folders(path)
    host.exists(path)
    host.link(path)
    host.resolve(path)


def test_a_read_of_the_live_machine_never_blocks(tmp_path: Path) -> None:
    """Below / every link is followed, but a pipe without a writer must not block the reader."""
    build(str(tmp_path), {"/pipe": Special.FIFO, "/folder": Special.FOLDER})
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        host = Host()
        assert host.live
        assert not host.read(str(tmp_path / "pipe"))
        assert host.read(str(tmp_path / "folder")) is None
        assert host.read(str(tmp_path / "socket")) is None


@given(st.binary(max_size=60))
def test_any_bytes_become_printable_text(data: bytes) -> None:
    text = printable(os.fsdecode(data))
    assert text.isprintable()
    text.encode("utf-8", "strict")


@given(st.text(alphabet=st.characters(), max_size=60))
def test_any_text_becomes_printable(text: str) -> None:
    assert printable(text).isprintable()
    assert len(printable(text)) == len(text)


@pytest.mark.parametrize("text", ["\ud800", "\udfff\ud800", "a\udc80b", "tab\there", "\u202e", "\x7f\x85"])
def test_half_a_surrogate_pair_becomes_printable(text: str) -> None:
    assert printable(text).isprintable()


@given(st.binary(max_size=80))
def test_any_file_is_a_number_or_none(data: bytes) -> None:
    host = _OneFile(data)
    for number in (host.number("/file"), host.hexadecimal("/file")):
        assert number is None or isinstance(number, int)
    assert all(part.isprintable() for part in host.strings("/file"))
    text = host.text("/file")
    assert text is not None
    assert text.isprintable()


class _OneFile(Host):
    """A host on which every file has the same contents."""

    def __init__(self, data: bytes) -> None:
        super().__init__("/nowhere")
        self._data = data

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes | None:
        return self._data[:limit]


def test_device_nodes_can_be_hidden(world: World) -> None:
    root = world({"/dev/apex_0": "", "/sys/a": "1"}).root
    assert Host(root).names("/dev") == ["apex_0"]
    blind = Host(root, dev=False)
    assert not blind.exists("/dev")
    assert not blind.exists("/dev/apex_0")
    assert blind.names("/dev") == []
    assert blind.text("/sys/a") == "1"
