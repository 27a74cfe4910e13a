"""Environments with fairlead installed from a release, with one extra and nothing else.

The distributions of an extra are those that the metadata names, and their requirements in turn. Their files
are linked from this environment into an empty one. So nothing is fetched, and nothing else can be imported.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from email import message_from_bytes
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HOUSE = Path(__file__).parent.parent.parent
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
_CLEAN = (
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "KUBECONFIG",
    "KUBERNETES_SERVICE_HOST",
    "FAIRLEAD_DEBUG",
)


@dataclass(frozen=True)
class Release:
    """The wheel and the sdist of a release."""

    wheel: Path
    sdist: Path

    def metadata(self) -> list[Requirement]:
        """Return the requirements of the wheel."""
        with zipfile.ZipFile(self.wheel) as archive:
            (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
            message = message_from_bytes(archive.read(name))
        return [Requirement(line) for line in message.get_all("Requires-Dist", [])]


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"

    @property
    def site(self) -> Path:
        (site,) = self.folder.glob("lib/python*/site-packages")
        return site

    def command(self, *words: str) -> list[str]:
        return [str(self.folder / "bin/fairlead"), *words]

    def run(self, *words: str, cwd: Path, **env: str) -> "subprocess.CompletedProcess[str]":
        """Run the fairlead of this environment."""
        return subprocess.run(
            self.command(*words),
            cwd=cwd,
            env=environ(cwd, **env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )


def environ(home: Path, **more: str) -> dict[str, str]:
    """Return environment variables that hide this process's own configuration."""
    own = {name: value for name, value in os.environ.items() if name not in _CLEAN}
    return {
        **own,
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "FAIRLEAD_STATE": str(home / "state"),
        "NO_COLOR": "1",
        **more,
    }


def build(folder: Path) -> Release:
    """Build as a release is built: the sdist from the sources, the wheel from the sdist, unpacked."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(HOUSE)]
    env = environ(folder)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Release(wheel, sdist)


def empty(folder: Path) -> Environment:
    """Create an environment with Python alone."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    return Environment(folder)


def pip(env: Environment, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run this environment's pip for another one, without an index."""
    command = [*PIP, "--python", str(env.python), *words]
    own = {name: value for name, value in environ(env.folder).items() if not name.startswith("PIP_")}
    return subprocess.run(
        command,
        env={**own, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def required_distributions(needs: list[Requirement], extra: str) -> dict[str, Distribution]:
    """Return the distributions that the wheel requires with an extra, by name."""
    found: dict[str, Distribution] = {}
    waiting = [(needs, frozenset({extra, ""}))]
    asked: set[str] = {extra}
    while waiting:
        requirements, extras = waiting.pop()
        for requirement in requirements:
            if not _applies(requirement, extras):
                continue
            name = canonicalize_name(requirement.name)
            if name == "fairlead":
                waiting += [(needs, frozenset({more})) for more in requirement.extras - asked]
                asked |= requirement.extras
            elif name not in found:
                found[name] = distribution(name)
                own = [Requirement(line) for line in found[name].requires or ()]
                waiting.append((own, frozenset({"", *requirement.extras})))
    return found


def _applies(need: Requirement, extras: Iterable[str]) -> bool:
    here = {name: str(value) for name, value in default_environment().items()}
    return need.marker is None or any(need.marker.evaluate({**here, "extra": each}) for each in extras)


def link(parts: Iterable[Distribution], env: Environment) -> None:
    """Install distributions into an environment by hard links to their files."""
    for part in parts:
        for file in part.files or ():
            source, target = Path(str(part.locate_file(file))), env.site / file
            if ".." not in file.parts and source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                _link_file(source, target)


def clone(base: Environment, folder: Path) -> Environment:
    """Create an environment with the fairlead that pip installed in another one."""
    env = empty(folder)
    (info,) = base.site.glob("fairlead-*.dist-info")
    link([PathDistribution(info)], env)
    script = (base.folder / "bin/fairlead").read_text().replace(str(base.folder), str(folder))
    (folder / "bin/fairlead").write_text(script)
    (folder / "bin/fairlead").chmod(0o755)
    return env


def _link_file(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def contents(release: Release) -> tuple[set[str], list[tarfile.TarInfo]]:
    """Return the files of the wheel, and the members of the sdist."""
    with zipfile.ZipFile(release.wheel) as wheel, tarfile.open(release.sdist) as sdist:
        return set(wheel.namelist()), sdist.getmembers()


def extras(needs: list[Requirement]) -> set[str]:
    """Return the extras that requirements name in their markers."""
    return {
        found
        for each in needs
        if each.marker
        for found in re.findall(r'extra == "([\w-]+)"', str(each.marker))
    }
