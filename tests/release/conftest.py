"""The release, built once, and environments with each extra of it."""

from collections.abc import Callable

import pytest

from tests.release import environments
from tests.release.environments import Environment, Release

Installed = Callable[[str], Environment]


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Build sdist and wheel."""
    return environments.build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def core(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Install the wheel, by pip, into an empty environment."""
    env = environments.empty(tmp_path_factory.mktemp("core") / "venv")
    done = environments.pip(env, "install", "--no-deps", str(release.wheel))
    assert done.returncode == 0, done.stderr
    return env


@pytest.fixture(scope="session")
def installed(release: Release, core: Environment, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return an environment with an extra and the distributions that it requires, and nothing else."""
    by_extra: dict[str, Environment] = {}

    def environment_with(extra: str) -> Environment:
        if extra not in by_extra:
            by_extra[extra] = environments.clone(core, tmp_path_factory.mktemp(extra or "plain") / "venv")
            environments.link(
                environments.required_distributions(release.metadata(), extra).values(), by_extra[extra]
            )
        return by_extra[extra]

    return environment_with
