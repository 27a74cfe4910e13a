"""Files as documents: JSON and YAML, bounded, and every complaint with the file's name."""

import json
from pathlib import Path

import pytest

from fairlead.errors import ManifestError
from fairlead.manifest import text


def write(folder: Path, data: bytes) -> str:
    path = folder / "file.yaml"
    path.write_bytes(data)
    return str(path)


def test_documents_are_told_apart(tmp_path: Path) -> None:
    path = write(tmp_path, b"a: 1\n---\n# nothing\n---\nb: 2\n")
    assert text.read(path) == [(f"{path}: document 1", {"a": 1}), (f"{path}: document 3", {"b": 2})]


@pytest.mark.parametrize("data", [b'{"a": [1, null]}', b"{a: [1, null]}", b"a:\n- 1\n-\n"])
def test_json_and_yaml_say_the_same(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path, data)
    assert text.read_one(path) == (path, {"a": [1, None]})


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x1f\x8b\x08\0", "compressed"),
        (b"\x7fELF\0\0", "not text"),
        (b"a: [", "not YAML: "),
        (b'{"a": [1', "neither JSON ("),
        (b"[" * 100_000, "nested deeper than 64"),
        (b"\xff\xfe\xff", "not YAML"),
    ],
)
def test_garbage(tmp_path: Path, data: bytes, says: str) -> None:
    path = write(tmp_path, data)
    with pytest.raises(ManifestError) as caught:
        text.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("start", "size", "says"),
    [
        (b"a: ", text.MOST_YAML + 1, "more than 8 MiB of YAML"),
        (b"[", text.MOST_JSON + 1, "more than 64 MiB"),
    ],
)
def test_a_huge_file_is_refused_unread(tmp_path: Path, start: bytes, size: int, says: str) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as stream:
        stream.write(start)
        stream.truncate(size)  # a hole: it takes no room, and reads as zeros
    with pytest.raises(ManifestError, match=says):
        text.read(str(path))


@pytest.mark.parametrize("name", [".", "none", "a\0b"])
def test_what_is_no_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(ManifestError) as caught:
        text.read(str(tmp_path / name))
    assert caught.value.hint


def test_large_json_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps(["x" * 100] * 100_000).encode())
    assert len(text.read_one(path)[1]) == 100_000
