"""Loading: the shipped files, then the user's, which add rows and replace them."""

from pathlib import Path

import pytest

from fairlead.catalog import load
from fairlead.catalog.load import user_places
from fairlead.errors import CatalogError

MINE = """schema = 1
[[device]]
id = "{id}"
name = "{name}"
vendor = "Me"
kind = "npu"
match.pci = ["abcd:0001"]
"""


def test_a_user_s_file_adds_and_replaces(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(MINE.format(id="my-npu", name="First"))
    (tmp_path / "b.toml").write_text(MINE.format(id="my-npu", name="Second"))
    (tmp_path / "c.txt").write_text("not a catalog")
    (tmp_path / "coral.toml").write_text(MINE.format(id="coral-usb", name="My Coral"))
    shipped, mine = load(), load([str(tmp_path)])
    assert set(mine.devices) - set(shipped.devices) == {"my-npu"}
    assert mine.get("my-npu").name == "Second"
    assert mine.get("my-npu").origin == str(tmp_path / "b.toml")
    assert mine.get("coral-usb").name == "My Coral"
    assert mine.by_usb("18d1:9302") == []  # the replaced row is gone with its keys
    assert len(load([str(tmp_path)], shipped=False).devices) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"schema = ", "not TOML: "),
        (b"\xff\xfe", "not TOML: "),
        (b"x = " + b"[" * 5000, "not TOML: "),
        (b"#" * (4 * 2**20 + 1), "larger than 4 MiB"),
        (b"", "schema: expected schema = 1"),
        (b"schema = 1\n[[device]]\nid = 'x'", "device[0] (x): name is missing"),
    ],
)
def test_an_invalid_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_bytes(content)
    with pytest.raises(CatalogError) as caught:
        load([str(file)])
    assert str(caught.value).startswith(f"{file}: {message}")


@pytest.mark.parametrize("place", ["missing.toml", "folder.toml/x/y"])
def test_a_missing_path_is_named(tmp_path: Path, place: str) -> None:
    with pytest.raises(CatalogError, match=r"No such file") as caught:
        load([str(tmp_path / place)])
    assert caught.value.hint


def test_an_empty_folder_adds_nothing(tmp_path: Path) -> None:
    assert len(load([str(tmp_path)], shipped=False).devices) == 0


def test_the_environment_adds_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_CATALOG", "/a.toml::/b")
    assert user_places()[-2:] == ["/a.toml", "/b"]
