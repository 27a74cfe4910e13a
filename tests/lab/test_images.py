"""Images: made from local files, the same bytes each time, and as `docker save` would write them."""

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
        assert [each["RepoTags"] for each in listed] == [["localhost/one:1"], ["localhost/two:1"]]
        for each in listed:
            config = json.loads(archive.extractfile(each["Config"]).read())  # type: ignore[union-attr]  # a file
            layer = archive.extractfile(each["Layers"][0]).read()  # type: ignore[union-attr]  # a file
            assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
            assert config["os"] == "linux"
    assert list(tmp_path.glob("*.layer")) == []


def test_a_layer_holds_files_links_and_folders_of_root(tmp_path: Path) -> None:
    write_archive(tmp_path / "images.tar", sample(tmp_path))
    with tarfile.open(tmp_path / "images.tar") as archive:
        listed = json.loads(archive.extractfile("manifest.json").read())  # type: ignore[union-attr]  # a file
        with tarfile.open(fileobj=archive.extractfile(listed[0]["Layers"][0])) as layer:
            found = {each.name: each for each in layer}
    assert found["bin"].isdir()
    assert found["bin/a"].isfile()
    assert found["bin/a"].mode == 0o755
    assert found["bin/b"].linkname == "a"
    assert {(each.uid, each.gid, each.mtime) for each in found.values()} == {(0, 0, 0)}


def test_the_same_files_give_the_same_layers(tmp_path: Path) -> None:
    names = []
    for name in ("a.tar", "b.tar"):
        write_archive(tmp_path / name, sample(tmp_path))
        with tarfile.open(tmp_path / name) as archive:
            names.append(archive.getnames())
    assert names[0] == names[1]
