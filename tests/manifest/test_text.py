"""Files as documents: JSON and YAML, bounded; every error names the file."""

import json
from pathlib import Path

import pytest

from fairlead.errors import ManifestError
from fairlead.manifest.files import text


def write(folder: Path, data: bytes) -> str:
    path = folder / "file.yaml"
    path.write_bytes(data)
    return str(path)


def test_documents_are_numbered(tmp_path: Path) -> None:
    path = write(tmp_path, b"a: 1\n---\n# nothing\n---\nb: 2\n")
    assert text.read(path) == [(f"{path}: document 1", {"a": 1}), (f"{path}: document 3", {"b": 2})]


@pytest.mark.parametrize("data", [b'{"a": [1, null]}', b"{a: [1, null]}", b"a:\n- 1\n-\n"])
def test_json_and_yaml_are_read_alike(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path, data)
    assert text.read_one(path) == (path, {"a": [1, None]})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x1f\x8b\x08\0", "compressed"),
        (b"\x7fELF\0\0", "not text"),
        (b"a: [", "not YAML: "),
        (b'{"a": [1', "neither JSON ("),
        (b"[" * 100_000, "nested deeper than 64"),
        (b"\xff\xfe\xff", "not YAML"),
    ],
)
def test_a_file_that_is_neither_json_nor_yaml(tmp_path: Path, data: bytes, message: str) -> None:
    path = write(tmp_path, data)
    with pytest.raises(ManifestError) as caught:
        text.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


SMALL = text.FileLimits(json=2 << 20, json_values=1000, yaml=1 << 20)


@pytest.mark.parametrize(
    ("start", "size", "message"),
    [
        (b"a: ", SMALL.yaml + 1, "more than 1 MiB of YAML"),
        (b"[", SMALL.json + 1, "more than 2 MiB$"),
        (b"[" + b"{}," * 500, SMALL.json, "more than 1,000 values"),
    ],
)
def test_a_huge_file_is_refused_before_it_is_parsed(
    tmp_path: Path, start: bytes, size: int, message: str
) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as stream:
        stream.write(start)
        stream.truncate(size)  # a sparse file: it takes no space, and reads as zeros
    with pytest.raises(ManifestError, match=message) as caught:
        text.read(str(path), SMALL)
    assert caught.value.hint


def test_all_pods_of_a_large_cluster_are_read(tmp_path: Path) -> None:
    pods, size, values_of_a_pod = 8000, 92_000_000, 400  # two containers with 18 variables each
    path = write(tmp_path, b'{"kind": "List", "items": [' + b" " * size + b"]}")
    assert text.read_one(path) == (path, {"kind": "List", "items": []})
    assert pods * values_of_a_pod < text.LIMITS.json_values


@pytest.mark.parametrize("name", [".", "none", "a\0b"])
def test_a_path_that_is_not_a_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(ManifestError) as caught:
        text.read(str(tmp_path / name))
    assert caught.value.hint


def test_large_json_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps(["x" * 100] * 100_000).encode())
    assert len(text.read_one(path)[1]) == 100_000
