"""The release: sdist and wheel are built, pip installs both, and each contains its files."""

import hashlib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from fairlead.shipped import FOLDERS
from tests.release import environments
from tests.release.environments import HOUSE, Environment, Release

pytestmark = pytest.mark.xdist_group("release")


def test_the_sdist_has_no_links_and_no_absolute_paths(release: Release) -> None:
    _, members = environments.contents(release)
    assert members
    assert not [
        member.name for member in members if member.issym() or member.islnk() or member.name.startswith("/")
    ]


def test_the_wheel_contains_every_file_that_messages_name(release: Release) -> None:
    wheel, _ = environments.contents(release)
    for name, folder in FOLDERS.items():
        files = [each.relative_to(HOUSE / folder) for each in (HOUSE / folder).rglob("*") if is_shipped(each)]
        assert files
        assert not sorted(str(file) for file in files if f"fairlead/share/{name}/{file}" not in wheel)
    assert not [name for name in wheel if name.startswith(("tests/", "bench/"))]


def is_shipped(path: Path) -> bool:
    """Return whether a file belongs to the release; a test may have compiled a module of an example."""
    return path.is_file() and path.suffix != ".pyc"


def test_the_wheel_contains_every_source(release: Release) -> None:
    wheel, _ = environments.contents(release)
    sources = [each for each in (HOUSE / "src").rglob("*") if is_shipped(each)]
    pins = [each for each in (HOUSE / "lab").rglob("*") if each.is_file()]
    expected = {str(source.relative_to(HOUSE / "src")) for source in sources}
    expected |= {f"fairlead/lab/go/{pin.relative_to(HOUSE / 'lab')}" for pin in pins}
    assert not sorted(expected - wheel)


def test_the_sdist_installs_as_the_wheel_does(release: Release, core: Environment, tmp_path: Path) -> None:
    """pip unpacks and builds the sdist with its own backend, and installs the same files as the wheel."""
    env = environments.empty(tmp_path / "venv")
    backend = environments.required_distributions([Requirement("hatchling>=1.27")], "").values()
    environments.link(backend, env)
    words = ("--no-deps", "--no-compile", "--no-build-isolation", str(release.sdist))
    done = environments.pip(env, "install", *words)
    assert done.returncode == 0, done.stderr
    assert _tree(env) == _tree(core)
    version = env.run("--version", cwd=tmp_path)
    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout.startswith("fairlead ")


def test_the_metadata_lists_every_extra(release: Release) -> None:
    with zipfile.ZipFile(release.wheel) as wheel:
        (name,) = [each for each in wheel.namelist() if each.endswith("METADATA")]
        lines = wheel.read(name).decode().splitlines()
    listed = {line.partition(": ")[2] for line in lines if line.startswith("Provides-Extra: ")}
    assert listed == {
        "cluster",
        "agent",
        "augment",
        "dashboard",
        "scheduler",
        "simulate",
        "predict",
        "calibrate",
        "lab",
        "pipeline",
        "onnx",
        "operator",
        "pipeline-cluster",
        "pipeline-hosts",
        "pipeline-plan",
        "pipeline-video",
        "run",
        "search",
        "all",
    }


def _tree(env: Environment) -> dict[str, str]:
    """Return the digests of the package's files; compiled files differ by the path they were built in."""
    top = env.site / "fairlead"
    files = [each for each in top.rglob("*") if is_shipped(each)]
    return {str(file.relative_to(top)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
