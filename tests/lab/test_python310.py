"""The unpacking of a Python 3.10 from its Go module: a list of files, some of them compressed."""

import gzip
import json
import os
from pathlib import Path

import pytest

from fairlead.errors import LabError
from fairlead.lab.build import cache, programs
from tests.lab.python310 import ensure_python, unpack


def packed(folder: Path, *files: dict[str, object]) -> Path:
    folder.mkdir()
    (folder / "files.json").write_text(json.dumps({"files": list(files)}))
    return folder


def test_files_links_and_modes_are_unpacked(tmp_path: Path) -> None:
    source = packed(
        tmp_path / "in",
        {"name": "bin", "perm": 2147484141},
        {"name": "bin/python3.10", "perm": 0o775, "compressed": True},
        {"name": "bin/python3", "perm": 134217728, "symlink": "python3.10"},
        {"name": "notes", "perm": 0o664},
    )
    (source / "bin").mkdir()
    (source / "bin/python3.10.gz").write_bytes(gzip.compress(b"machine code"))
    (source / "notes").write_bytes(b"plain")
    target = tmp_path / "out"
    target.mkdir()
    unpack(source, target)
    assert (target / "bin/python3").read_bytes() == b"machine code"
    assert os.access(target / "bin/python3.10", os.X_OK)
    assert (target / "notes").read_bytes() == b"plain"
    assert not os.access(target / "notes", os.X_OK)


def test_nothing_is_written_outside_of_the_folder(tmp_path: Path) -> None:
    source = packed(tmp_path / "in", {"name": "../evil", "perm": 0o664})
    (tmp_path / "evil").write_bytes(b"")
    (tmp_path / "out").mkdir()
    with pytest.raises(LabError, match="lies outside"):
        unpack(source, tmp_path / "out")


def test_an_architecture_without_a_build_is_an_error(tmp_path: Path) -> None:
    build_env = programs.BuildEnvironment(cache.BuildCache(tmp_path), tmp_path, (), {})
    with pytest.raises(LabError, match="for riscv64") as caught:
        ensure_python("riscv64", build_env=build_env)
    assert "amd64, arm64" in caught.value.hint
