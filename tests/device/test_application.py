"""The digest of an application: which file makes a command what it is."""

import hashlib
import os
from pathlib import Path

import pytest

from fairlead.device.application import (
    CommandDigest,
    application_file,
    command_digest,
    image_digest,
    split_command,
)
from fairlead.errors import DeviceError


@pytest.mark.parametrize(
    ("command", "file"),
    [
        (["python3", "app.py"], "app.py"),
        (["python3", "-u", "app.py", "config.yaml"], "app.py"),
        (["/usr/bin/python3.11", "app.py"], "app.py"),
        (["./tool", "config.yaml"], "tool"),
        (["tool", "config.yaml"], "tool"),
        (["bash", "-c", "echo"], "bash"),
        (["nowhere"], None),
        (["./nowhere", "config.yaml"], None),
    ],
)
def test_the_file_of_a_command(tmp_path: Path, command: list[str], file: str | None) -> None:
    for name in ("app.py", "config.yaml", "tool", "bash", "python3"):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(0o755)
    found = application_file(command, str(tmp_path), str(tmp_path))
    assert (found and os.path.basename(found)) == file


def test_the_digest_follows_the_file(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.write_bytes(b"1")
    digest = CommandDigest()
    first = digest([str(app)])
    assert first == f"sha256:{hashlib.sha256(b'1').hexdigest()}" == command_digest([str(app)])
    app.write_bytes(b"22")
    assert digest([str(app)]) == f"sha256:{hashlib.sha256(b'22').hexdigest()}"
    app.unlink()
    assert digest([str(app)]) is None


def test_the_digest_of_an_image() -> None:
    digest = "sha256:" + "ab" * 32
    assert image_digest(f"registry/app@{digest}") == image_digest(digest) == digest
    for text in ("app:1", "", "sha256:12"):
        with pytest.raises(DeviceError, match="no digest of an image"):
            image_digest(text)
    for text in ("", "'"):
        with pytest.raises(DeviceError):
            split_command(text)
