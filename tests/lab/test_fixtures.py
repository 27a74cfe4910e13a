"""The fixtures of cluster tests: one API server per run, a namespace per test, nothing left behind."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import CONFIG_MAPS, NAMESPACES, NODES, PODS
from fairlead.errors import NotFoundError
from fairlead.lab.run import home
from tests.lab.command_line import write_fake_programs
from tests.labs import LABEL, RealApi, RealCluster, open_namespace, wipe_namespace

ROOT = Path(__file__).parents[2]
SAMPLE = """\
from tests.labs import RealCluster

def test_one(real_cluster: RealCluster) -> None:
    assert real_cluster.namespace

def test_two(real_cluster: RealCluster) -> None:
    assert real_cluster.namespace
"""
GROUPED = """\
import pytest

@pytest.fixture
def real_node() -> None: ...

@pytest.fixture
def through_another(real_node: None) -> None: ...

@pytest.mark.parametrize("number", range(4))
def test_node(through_another: None, number: int) -> None: ...

@pytest.mark.parametrize("number", range(4))
def test_other(number: int) -> None: ...
"""


def test_a_namespace_is_fresh_and_a_pod_can_be_created_there(real_cluster: RealCluster) -> None:
    async def look() -> None:
        async with real_cluster.connect() as client:
            assert (await client.list(PODS, real_cluster.namespace)).items == ()
            body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
            pod = await client.create(PODS, body, real_cluster.namespace)
            assert pod.metadata.uid

    asyncio.run(look())


def test_nothing_is_left_of_a_namespace_not_even_objects_with_finalizers(real_api: RealApi) -> None:
    async def life() -> None:
        name = "test-stubborn"
        await open_namespace(real_api, name)
        async with RealCluster(real_api, name).connect() as client:
            stubborn = {"metadata": {"name": "a", "finalizers": ["example.com/never"]}, "data": {}}
            await client.create(CONFIG_MAPS, stubborn, name)
            node = {"metadata": {"name": name, "labels": {LABEL: name}}}
            await client.create(NODES, node)
            await wipe_namespace(real_api, name)
            with pytest.raises(NotFoundError):
                await client.get(NODES, name)
            with pytest.raises(NotFoundError):
                await get_until_gone(client, name)
            assert (await client.list(CONFIG_MAPS, name)).items == ()

    asyncio.run(life())


async def get_until_gone(client: Client, namespace: str) -> None:
    """Get a namespace until it is gone: a cluster of the user's own takes a moment."""
    for _ in range(100):
        await client.get(NAMESPACES, namespace)
        await asyncio.sleep(0.2)


def run_sample(
    folder: Path, environ: dict[str, str], *arguments: str, sample: str = SAMPLE
) -> subprocess.CompletedProcess[str]:
    (folder / "test_sample.py").write_text(sample)
    (folder / "conftest.py").write_text('pytest_plugins = ("tests.labs",)\n')
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -ra\n")
    pytest_call = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments, str(folder)]
    return subprocess.run(
        pytest_call, cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a machine on which no lab can be built."""
    (tmp_path / "no-cache").write_text("a file, where a folder should be")
    return {
        "PATH": "/nowhere",
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "no-cache"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }


def test_without_a_lab_tests_skip_in_one_counted_line(tmp_path: Path, environ: dict[str, str]) -> None:
    done = run_sample(tmp_path, environ)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert line.startswith("SKIPPED [2] ")
    assert "no lab: " in line


def test_in_ci_a_skip_is_a_failure(tmp_path: Path, environ: dict[str, str]) -> None:
    done = run_sample(tmp_path, {**environ, "CI": "true"})
    assert done.returncode == 1
    assert "with CI=true a skip is a failure" in done.stdout


def test_a_lab_that_does_not_start_is_an_error_and_not_a_skip(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    broken = write_fake_programs(tmp_path / "assets", "#!/bin/sh\necho broken >&2; exit 1\n")
    done = run_sample(tmp_path, {**environ, **broken, "PATH": "/usr/bin:/bin"})
    assert done.returncode == 1
    assert "kube-apiserver stopped while the lab started" in done.stdout


def test_one_worker_runs_all_tests_of_the_real_node(tmp_path: Path, environ: dict[str, str]) -> None:
    done = run_sample(tmp_path, environ, "-n2", "--dist=loadgroup", "-v", sample=GROUPED)
    assert done.returncode == 0, done.stdout + done.stderr
    ran = [line.split() for line in done.stdout.splitlines() if "PASSED" in line]
    assert len(ran) == 8
    assert len({words[0] for words in ran if "test_node" in words[-1]}) == 1


def test_the_workers_of_a_run_share_one_api_server(real_api: RealApi) -> None:
    if real_api.lab is not None:
        names = [lab.name for lab in home.default(os.environ).labs()]
        assert names.count(real_api.lab.name) == 1
