"""The arm64 images, built on any machine: they have no file of this machine, and no library is missing."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.image import elf, packages, pythons
from deploy.image.libraries import closure
from deploy.image.pythons import Python
from deploy.image.recipes import RECIPES
from fairlead.errors import FairleadError, UserError
from fairlead.lab.build.modules import architecture
from tests.images import HOUSE, UnpackedImage, image_archive, unpack_image
from tests.labs import skip_without_lab

LARGEST_PAGE = 64 * 1024
"""Kernels for 64-bit ARM have pages of 4, 16 (Raspberry Pi 5) or 64 KiB."""
LOCK = """\
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via -r scheduler.in
numpy==2.5.4 ; python_full_version >= '3.12' \\
    --hash=sha256:cc
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:dd
yarl==1.25.1 ; platform_machine == 'aarch64' \\
    --hash=sha256:ee
"""


@pytest.fixture(scope="session", params=RECIPES)
def recipe(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def unpacked(recipe: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[UnpackedImage, Path]:
    try:
        pythons.choose("arm64")
    except FairleadError as error:
        skip_without_lab(f"no packages for arm64: {str(error).splitlines()[0]}")
    root = tmp_path_factory.mktemp("arm64")
    return unpack_image(image_archive(recipe, "arm64"), root), root


def test_the_configuration_names_the_architecture(recipe: str, unpacked: tuple[UnpackedImage, Path]) -> None:
    parts, _ = unpacked
    assert (parts.about["architecture"], parts.about["variant"], parts.about["os"]) == (
        "arm64",
        "v8",
        "linux",
    )
    assert parts.tags == [RECIPES[recipe].tag]


def test_every_program_and_library_is_for_arm64_and_pages_of_any_size(
    unpacked: tuple[UnpackedImage, Path],
) -> None:
    _, root = unpacked
    data = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    binaries = {name: content for name, content in data.items() if elf.is_elf(content)}
    assert {"usr/bin/python3", "lib/ld-linux-aarch64.so.1"} <= set(binaries)
    assert {name: elf.machine(content) for name, content in binaries.items()} == dict.fromkeys(
        binaries, elf.AARCH64
    )
    small = {
        name
        for name, content in binaries.items()
        if any(segment.alignment < LARGEST_PAGE for segment in elf.segments(content) if segment.loaded)
    }
    assert small == set()


def test_no_needed_library_is_missing(unpacked: tuple[UnpackedImage, Path]) -> None:
    _, root = unpacked
    present = {path.name for path in root.rglob("*.so*")}
    for path in [*root.rglob("*.so*"), root / "usr/bin/python3"]:
        assert set(elf.needed_libraries(path.read_bytes()).names) <= present, path


def test_the_image_has_the_same_modules_as_the_one_for_this_machine(
    recipe: str, unpacked: tuple[UnpackedImage, Path], tmp_path: Path
) -> None:
    ours = unpack_image(image_archive(recipe), tmp_path)

    def modules(parts: UnpackedImage) -> set[str]:
        return {name for name in parts.members if name.startswith("usr/lib/fairlead/fairlead/")}

    assert modules(unpacked[0]) == modules(ours)
    assert len(modules(ours)) > 100


def other(version: tuple[int, int] = (3, 11)) -> Python:
    """Return a Python of another architecture, with only the fields that pip needs."""
    return Python("arm64", version, Path(), Path(), "lib", (), root=Path("/nowhere"), libc="2.36")


@pytest.mark.parametrize(("version", "numpy"), [((3, 11), "2.4.6"), ((3, 13), "2.5.4")])
def test_markers_of_a_lock_are_evaluated_for_the_other_architecture(
    version: tuple[int, int], numpy: str
) -> None:
    lines = packages.requirements(LOCK, other(version))
    assert [line.split()[0] for line in lines] == [f"numpy=={numpy}", "yarl==1.25.1"]
    assert packages.requirements(LOCK, other(), only={"yarl"}) == ["yarl==1.25.1 --hash=sha256:ee"]
    assert packages.requirements(LOCK, other(), only={"numpy"}) == [
        "numpy==2.4.6 --hash=sha256:aa --hash=sha256:bb"
    ]


def test_locks_have_hashes_for_every_package() -> None:
    for recipe in RECIPES.values():
        lines = packages.requirements(recipe.lock.read_text(), other())
        named = recipe.lock.with_suffix(".in").read_text().splitlines()
        wanted = {line.partition(">")[0] for line in named if line[:1].isalpha() and ";" not in line}
        assert wanted <= {line.partition("==")[0] for line in lines}
        assert all("--hash=sha256:" in line for line in lines)


def test_needed_libraries_match_those_of_the_loader() -> None:
    own = pythons.choose("")
    names = {Path(name).name for name in closure(own.program, [])}
    assert set(elf.needed_libraries(own.program.read_bytes()).names) <= names


def test_an_unknown_architecture_is_an_error() -> None:
    with pytest.raises(UserError, match="architecture 'z80'") as caught:
        pythons.choose("z80")
    assert "arm64" in caught.value.hint


def test_own_architecture_by_its_name_is_this_machines_python() -> None:
    assert pythons.choose(architecture()) == pythons.choose("")
    assert pythons.choose("").version == sys.version_info[:2]


def test_nothing_is_compiled_for_another_architecture() -> None:
    lock = HOUSE / "requirements" / "agent.txt"
    with pytest.raises(UserError, match="msgspec cannot be built from source for arm64"):
        packages.ensure_packages(lock, replace(other()), ["msgspec"])
