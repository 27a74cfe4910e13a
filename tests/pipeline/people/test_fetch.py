"""The script that gets model and clip: packages and results are checked, what is missing is said."""

import hashlib
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from examples.pipeline.people import convert
from examples.pipeline.people.fetch import PINS, Pin, cache_folder, digest, fetch, link
from fairlead.errors import UserError
from tests.pipeline.people.tfjs import every_operator


def sha256(content: bytes) -> str:
    """Return the digest of bytes."""
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def pin(tmp_path: Path) -> Pin:
    """Return a pin of a package in the folder `shop`, from which `cp` downloads it."""
    shop = tmp_path / "shop"
    shop.mkdir()
    source = every_operator().write(shop)
    convert.main([str(source), str(shop / "model.onnx")])
    with tarfile.open(shop / "p-1.tgz", "w:gz") as archive:
        archive.add(shop / "model.bin", "package/model.bin")
        archive.add(shop / "model.json", "package/model.json")
    return Pin(
        "model.onnx",
        digest(shop / "model.onnx"),
        "p-1.tgz",
        digest(shop / "p-1.tgz"),
        ("cp", str(shop / "p-1.tgz"), "."),
        ("package/model.json", "package/model.bin"),
        "ours",
    )


def test_a_model_is_downloaded_converted_and_kept(pin: Pin, tmp_path: Path) -> None:
    said: list[str] = []
    cache = tmp_path / "cache" / "key"
    made = fetch(pin, cache, None, said.append)
    assert digest(made) == pin.sha256
    assert said == [" ".join(pin.command), f"{made}: ours"]
    assert [each.name for each in cache.iterdir()] == ["model.onnx"], "the package is not kept"
    gone = replace(pin, command=("false",))
    assert fetch(gone, cache, None, said.append) == made
    assert len(said) == 2
    made.write_bytes(b"damaged")
    assert digest(fetch(pin, cache, tmp_path / "shop", said.append)) == pin.sha256
    link([made], tmp_path / "data")
    link([made], tmp_path / "data")
    assert digest(tmp_path / "data" / "model.onnx") == pin.sha256


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        ({"command": ("no-such-program",)}, "model.onnx: no-such-program is not installed here", "p-1.tgz"),
        ({"command": ("ls", "--no-such-option")}, "model.onnx: ls --no-such-option: ", "--packages DIR"),
        ({"command": ("true",)}, "model.onnx: true: no package came", "copy p-1.tgz into a folder"),
        ({"package_sha256": "0" * 64}, f"and {'0' * 64} is pinned", "copy p-1.tgz"),
        ({"sha256": "1" * 64}, f"and {'1' * 64} is pinned", "do not use it"),
        ({"members": ("package/other.json",)}, "p-1.tgz does not contain package/other.json", "pins"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_kept(
    pin: Pin, tmp_path: Path, change: dict[str, object], message: str, hint: str
) -> None:
    with pytest.raises(UserError) as caught:
        fetch(replace(pin, **change), tmp_path / "cache", None, lambda line: None)  # type: ignore[arg-type]  # a table
    assert message in str(caught.value)
    assert hint in caught.value.hint
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_folder_without_the_package_is_named(pin: Pin, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"elsewhere/p-1\.tgz does not exist"):
        fetch(pin, tmp_path / "cache", tmp_path / "elsewhere", lambda line: None)


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="needs dpkg-deb")
def test_a_clip_comes_out_of_a_debian_package(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name, text in (
        ("DEBIAN/control", "Package: p\nVersion: 1\nArchitecture: all\nMaintainer: p\nDescription: p\n"),
        ("usr/clip.avi", "frames"),
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    subprocess.run(["dpkg-deb", "--build", tree, tmp_path / "p.deb"], check=True, capture_output=True)
    package = digest(tmp_path / "p.deb")
    pin = Pin("clip.avi", sha256(b"frames"), "p.deb", package, ("false",), ("./usr/clip.avi",), "ours")
    assert fetch(pin, tmp_path / "cache", tmp_path, lambda line: None).read_text() == "frames"


def test_the_cache_belongs_to_the_user_and_to_the_pins() -> None:
    environ = {"HOME": "/home/ada"}
    one = cache_folder(environ)
    assert one.parent == Path("/home/ada/.cache/fairlead/people")
    assert cache_folder({**environ, "XDG_CACHE_HOME": "/big"}).parent == Path("/big/fairlead/people")
    other = (replace(PINS[0], sha256="0"), PINS[1])
    assert cache_folder(environ, other) != one == cache_folder(environ, PINS)
