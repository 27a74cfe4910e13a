"""`fairlead nodes` on a real API server, and its errors without a usable one."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.cluster.kinds import NODES
from fairlead.compat.times import UTC
from tests.cluster.loopback import Authority
from tests.labs import LABEL, RealCluster

RUN = (sys.executable, "-c", "from fairlead.cli.main import run; run()")


def nodes(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, "nodes", *words], capture_output=True, text=True, timeout=300, check=False)


def make(cluster: RealCluster, name: str, labels: dict[str, str]) -> None:
    """Create a node that is removed after the test."""
    body = {"metadata": {"name": name, "labels": {LABEL: cluster.namespace, **labels}}}

    async def inside() -> None:
        async with cluster.connect() as client:
            await client.create(NODES, body)

    asyncio.run(inside())


def test_nodes_and_the_accelerators_of_their_labels(real_cluster: RealCluster) -> None:
    name = f"{real_cluster.namespace}-nano"
    facts = {"count": "2", "usable": "1", "kind": "gpu", "state": "present"}
    labels = {f"fairlead.dev/jetson-nano.{field}": text for field, text in facts.items()}
    make(real_cluster, name, {**labels, "fairlead.dev/gpu.count": "2", "fairlead.dev/unknown.count": "1"})
    only = ("--kubeconfig", str(real_cluster.api.kubeconfig), "-l", f"{LABEL}={real_cluster.namespace}")
    listed = yaml.safe_load(nodes(*only, "-o", "yaml").stdout)
    assert [(node["name"], node["ready"]) for node in listed] == [(name, False)]
    assert listed[0]["accelerators"] == [
        {"model": "jetson-nano", "kind": "gpu", "count": 2, "usable": 1, "state": "present"}
    ]
    table = nodes(*only).stdout
    assert "2 x jetson-nano" in table
    assert name in table
    assert nodes(*only, "-o", "name").stdout == f"{name}\n"
    assert nodes(*only, "--no-headers").stdout == table.splitlines(keepends=True)[1]


def test_watch_prints_changes(real_cluster: RealCluster) -> None:
    only = ("--kubeconfig", str(real_cluster.api.kubeconfig), "-l", f"{LABEL}={real_cluster.namespace}")
    name = f"{real_cluster.namespace}-late"
    with subprocess.Popen([*RUN, "nodes", "--watch", *only], stdout=subprocess.PIPE, text=True) as watch:
        try:
            make(real_cluster, name, {})
            assert watch.stdout is not None
            line = watch.stdout.readline()
        finally:
            watch.terminate()
    assert line.startswith("added")
    assert name in line


Change = Callable[[dict[str, Any], Path], object]


def _expire(document: dict[str, Any], folder: Path) -> None:
    pair = Authority().leaf("late", until=datetime.now(UTC) - timedelta(days=2))
    (folder / "crt").write_bytes(pair.certificate)
    (folder / "key").write_bytes(pair.key)
    document["users"][0]["user"] = {
        "client-certificate": str(folder / "crt"),
        "client-key": str(folder / "key"),
    }


def _unreachable(document: dict[str, Any], _: Path) -> None:
    document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"


def _unknown_user(document: dict[str, Any], _: Path) -> None:
    document["users"][0]["user"] = {"token": "an-unknown-token"}


WRONG: list[tuple[str, Change, int, str]] = [
    ("unreachable", _unreachable, 3, "127.0.0.1:1"),
    ("expired certificate", _expire, 2, "certs renew"),
    ("unknown user", _unknown_user, 2, "does not accept the credentials"),
]


@pytest.mark.parametrize(("what", "change", "code", "message"), WRONG, ids=[row[0] for row in WRONG])
def test_a_connection_error_is_reported(
    real_cluster: RealCluster, tmp_path: Path, what: str, change: Change, code: int, message: str
) -> None:
    document = yaml.safe_load(real_cluster.api.kubeconfig.read_text())
    change(document, tmp_path)
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    done = nodes("--kubeconfig", str(path))
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("--kubeconfig", "/none"), ("--context", "none")])
def test_a_missing_kubeconfig_or_context_is_reported(tmp_path: Path, words: tuple[str, ...]) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("apiVersion: v1\nkind: Config\n")
    named = words if words[0] == "--kubeconfig" else ("--kubeconfig", str(path), *words)
    done = nodes(*named)
    assert done.returncode == 2
    assert done.stderr.startswith("fairlead: ")
