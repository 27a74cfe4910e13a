"""The plugin's package for krew: the same bytes each time, a fitting checksum, a launcher that starts."""

import hashlib
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from deploy.krew.package import krew_manifest, write_package
from fairlead import __version__
from tests.release.conftest import Installed
from tests.release.environments import Release, environ

pytestmark = pytest.mark.xdist_group("release")


@pytest.fixture(scope="module")
def unpacked(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the plugin as krew unpacks it, after a look at its manifest."""
    folder = tmp_path_factory.mktemp("krew")
    archive, manifest = write_package(release.wheel, folder, "https://example.org/files/")
    again, _ = write_package(release.wheel, folder / "again")
    assert again.read_bytes() == archive.read_bytes()
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    document = yaml.safe_load(manifest.read_text())
    assert document == krew_manifest(digest, f"https://example.org/files/{archive.name}")
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "store", filter="data")
    return folder / "store"


def start(store: Path, home: Path, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """Start the launcher as krew links it, without an index of packages."""
    home.mkdir(exist_ok=True)
    link = home / more.pop("name", "kubectl-fairlead")
    link.symlink_to(store / link.name)
    env = {**environ(home), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, **more}
    return subprocess.run([link, *words], env=env, capture_output=True, text=True, check=False)


def test_the_launcher_runs_the_plugin_of_its_version(
    unpacked: Path, installed: Installed, tmp_path: Path
) -> None:
    place = tmp_path / "home/data/fairlead" / f"kubectl-{__version__}"
    place.parent.mkdir(parents=True)
    place.symlink_to(installed("cluster").folder)
    done = start(unpacked, tmp_path / "home", "--version")
    assert (done.stdout, done.stderr) == (f"kubectl fairlead {__version__}\n", "")
    completed = start(unpacked, tmp_path / "home", "no", name="kubectl_complete-fairlead")
    assert completed.stdout.splitlines()[-1] == ":4"


@pytest.mark.skipif(
    os.environ.get("FAIRLEAD_CHAOS") != "long", reason="makes an environment with pip: FAIRLEAD_CHAOS=long"
)
def test_a_failed_installation_says_what_to_do_and_leaves_nothing(unpacked: Path, tmp_path: Path) -> None:
    done = start(unpacked, tmp_path / "home", "nodes")
    assert done.returncode == 2
    assert "its Python packages cannot be installed, see above\n  check what pip reaches" in done.stderr
    assert list((tmp_path / "home/data/fairlead").iterdir()) == []


def test_without_a_python_it_says_so(unpacked: Path, tmp_path: Path) -> None:
    done = start(unpacked, tmp_path / "home", "nodes", FAIRLEAD_PYTHON="/none")
    assert (done.returncode, "no Python 3.11 or newer" in done.stderr) == (2, True)


def test_completion_installs_nothing(unpacked: Path, tmp_path: Path) -> None:
    done = start(unpacked, tmp_path / "home", "no", name="kubectl_complete-fairlead")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "home/data").exists()
