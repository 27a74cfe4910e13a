"""Images: built from local files, reproducible, in the format of `docker save`."""

import hashlib
import json
import tarfile
from pathlib import Path

from fairlead.lab.build.images import Image, LayerEntry, write_archive


def sample(folder: Path) -> list[Image]:
    program = folder / "program"
    program.write_bytes(b"\x7fELF")
    one = Image(
        "localhost/one:1",
        (LayerEntry("bin"), LayerEntry("bin/a", source=program), LayerEntry("bin/b", link="a")),
    )
    two = Image("localhost/two:1", (LayerEntry("etc/x", text="hello", mode=0o644),), {"User": "1:1"})
    return [one, two]


def test_an_archive_lists_every_image_with_its_layer(tmp_path: Path) -> None:
    write_archive(tmp_path / "images.tar", sample(tmp_path))
    with tarfile.open(tmp_path / "images.tar") as archive:
        listed = json.loads(archive.extractfile("manifest.json").read())  # type: ignore[union-attr]  # it is a file
        assert [image["RepoTags"] for image in listed] == [["localhost/one:1"], ["localhost/two:1"]]
        for image in listed:
            config = json.loads(archive.extractfile(image["Config"]).read())  # type: ignore[union-attr]  # a file
            layer = archive.extractfile(image["Layers"][0]).read()  # type: ignore[union-attr]  # a file
            assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
            assert config["os"] == "linux"
    assert list(tmp_path.glob("*.layer")) == []


def test_a_layer_holds_files_links_and_folders_of_root(tmp_path: Path) -> None:
    write_archive(tmp_path / "images.tar", sample(tmp_path))
    with tarfile.open(tmp_path / "images.tar") as archive:
        listed = json.loads(archive.extractfile("manifest.json").read())  # type: ignore[union-attr]  # a file
        with tarfile.open(fileobj=archive.extractfile(listed[0]["Layers"][0])) as layer:
            members = {member.name: member for member in layer}
    assert members["bin"].isdir()
    assert members["bin/a"].isfile()
    assert members["bin/a"].mode == 0o755
    assert members["bin/b"].linkname == "a"
    assert {(member.uid, member.gid, member.mtime) for member in members.values()} == {(0, 0, 0)}


def test_the_same_files_give_the_same_layers(tmp_path: Path) -> None:
    names = []
    for name in ("a.tar", "b.tar"):
        write_archive(tmp_path / name, sample(tmp_path))
        with tarfile.open(tmp_path / name) as archive:
            names.append(archive.getnames())
    assert names[0] == names[1]
