"""Files of saved images: layers from the top, whiteouts, links, and hostile archives."""

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import ManifestError
from fairlead.expect.submitted.image_archive import open_archive
from fairlead.expect.submitted.tarstream import TarReader
from tests.expect.submitted.worlds import archive, docker_save, layer, oci_layout

OLD, NEW = b"old" * 300, b"new" * 400


def copied(
    folder: Path, data: bytes, path: str, image: str = "example/app:v1", prefix: str = ""
) -> bytes | str:
    """Return a file of an image, or why it is not there."""
    (folder / "image.tar").write_bytes(data)
    with open_archive(f"{prefix}{folder / 'image.tar'}") as opened:
        found = opened.find(image)
        if found is None:
            return "no such image"
        out = io.BytesIO()
        return found.copy(path, out) or out.getvalue()


LAYERS = {
    "plain": ([layer(("m/a.onnx", OLD))], OLD),
    "absolute names": ([layer(("./m/a.onnx", OLD))], OLD),
    "an upper layer replaces": ([layer(("m/a.onnx", OLD)), layer(("m/a.onnx", NEW))], NEW),
    "a lower layer does not": ([layer(("m/a.onnx", OLD)), layer(("other", b"x"))], OLD),
    "a whiteout removes": ([layer(("m/a.onnx", OLD)), layer(("m/.wh.a.onnx", b""))], "not in the image"),
    "a whiteout of a folder": ([layer(("m/a.onnx", OLD)), layer((".wh.m", b""))], "not in the image"),
    "an opaque folder": ([layer(("m/a.onnx", OLD)), layer(("m/.wh..wh..opq", b""))], "not in the image"),
    "opaque, and new": ([layer(("m/a.onnx", OLD)), layer(("m/.wh..wh..opq", b""), ("m/a.onnx", NEW))], NEW),
    "a whiteout below": ([layer(("m/.wh.a.onnx", b"")), layer(("m/a.onnx", NEW))], NEW),
    "a link": ([layer(("v/a.onnx", OLD), ("m", ">v"))], OLD),
    "an absolute link with dots": ([layer(("v/a.onnx", OLD), ("m/a.onnx", ">/x/../v/a.onnx"))], OLD),
    "a link replaces a folder": ([layer(("m/a.onnx", OLD), ("v/a.onnx", NEW)), layer(("m", ">v"))], NEW),
    "a folder replaces a link": ([layer(("m", ">v")), layer(("m", "/"), ("m/a.onnx", NEW))], NEW),
    "a hard link": ([layer(("v/a.onnx", OLD), ("m/a.onnx", "=v/a.onnx"))], OLD),
    "a link in a circle": ([layer(("m", ">n"), ("n", ">m"))], "not in the image"),
    "out of the archive": ([layer(("../m/a.onnx", OLD), ("x/../../m/a.onnx", OLD))], "not in the image"),
    "a long name": (
        [layer(("m/" + "d/" * 150 + "a.onnx", OLD), ("m/a.onnx", ">" + "d/" * 150 + "a.onnx"))],
        OLD,
    ),
}


@pytest.mark.parametrize("form", [docker_save, oci_layout])
@pytest.mark.parametrize("case", LAYERS)
def test_layers(case: str, form: object, tmp_path: Path) -> None:
    layers, wanted = LAYERS[case]
    assert callable(form)
    assert copied(tmp_path, form(layers), "/m/a.onnx") == wanted


@pytest.mark.parametrize("wrap", [lambda data: data, gzip.compress], ids=["plain", "gzip"])
def test_compressed_layers_and_archives(wrap: object, tmp_path: Path) -> None:
    assert callable(wrap)
    layers = [wrap(layer(("m/a.onnx", OLD)))]
    for data in (docker_save(layers), oci_layout(layers, index=True)):
        assert copied(tmp_path, wrap(data), "/m/a.onnx") == OLD


def test_an_image_is_found_by_its_name(tmp_path: Path) -> None:
    data = docker_save([layer(("a.onnx", OLD))], "example/app:latest")
    assert copied(tmp_path, data, "/a.onnx", "registry.example.org/example/app") == OLD
    assert copied(tmp_path, data, "/a.onnx", "example/app:v2") == "no such image"
    assert copied(tmp_path, data, "/a.onnx", "myexample/app:latest") == "no such image"
    assert copied(tmp_path, data, "/a.onnx", "other:v2", "other:v2=") == OLD


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no usable index.json"),
        (archive({"manifest.json": b"{"}), "not JSON"),
        (archive({"manifest.json": b'[{"Layers": 1}]'}), "not an archive of images"),
        (archive({"index.json": b'{"manifests": [{"digest": "sha256:../../x"}]}'}), "the digest"),
        (docker_save([layer(("a.onnx", OLD))])[:3000], "cut off"),
        (docker_save([b"\x28\xb5\x2f\xfd" + bytes(600)]), "zstd"),
        (docker_save([gzip.compress(layer(("a.onnx", OLD)))[:40] + b"x" * 99]), "not a usable tar archive"),
        (b"x" * 4096, "no usable|not a usable"),
    ],
)
def test_a_damaged_archive_is_an_error(data: bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=reason):
        copied(tmp_path, data, "/a.onnx")


def test_the_bytes_of_an_archive_are_bounded() -> None:
    bomb = gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(layer(("zeros", bytes(1 << 20))))))
    with pytest.raises(ManifestError, match="more bytes"):
        list(TarReader(bomb, "bomb", most_bytes=1 << 16))  # type: ignore[arg-type]


def test_a_header_of_any_length_is_not_read() -> None:
    header = bytearray(layer(("x", b""))[:512])
    header[124:136], header[156:157] = b"77777777777\0", b"x"
    with pytest.raises(ManifestError, match="a header of 8589934591 bytes"):
        list(TarReader(io.BytesIO(bytes(header) * 4), "hostile"))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_damage_of_a_header_does_more_than_an_error(data: st.DataObject) -> None:
    whole = bytearray(layer(("m/" + "d/" * 60 + "a.onnx", OLD), ("l", ">m")))
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.integers(0, 2047))] = data.draw(st.integers(0, 255))
    try:
        members = list(TarReader(io.BytesIO(bytes(whole)), "damaged"))
    except ManifestError:
        return
    assert all(".." not in member.name.split("/") for member in members)
