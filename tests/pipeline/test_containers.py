"""A program inside a real container as a stage; it ends with its run, however that ends."""

import json
import os
import select
import shutil
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fairlead.lab.build.cache import default
from tests.pipeline.pipelines import STAGES, lines, run
from tests.pipeline.resumed import LIMIT, kill_when, open_process, start_run
from tests.pipeline.stages import halves

SOURCE = Path(__file__).parents[2] / "examples" / "pipeline" / "c"
SPEC = {
    "ociVersion": "1.0.0",
    "process": {"args": ["/relu"], "cwd": "/", "user": {"uid": 65534, "gid": 65534}},
    "root": {"path": "rootfs", "readonly": True},
    "mounts": [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
    ],
    "linux": {"namespaces": [{"type": each} for each in ("pid", "mount", "ipc", "uts", "network")]},
}
TEXT = """
pipeline: contained
stages:
  - {name: camera, source: generator, options: {function: "$S:halves", arguments: {count: COUNT}}}
  - {name: relu, exec: [sh, -c, "exec RUNC --root ./containers run --bundle ./bundle relu-$$"]}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
"""


class Containers:
    """A runtime, and a folder with the bundle of one container."""

    def __init__(self, runtime: Path, folder: Path) -> None:
        self._runtime = runtime
        self._folder = folder

    def text(self, count: int) -> str:
        """Return a pipeline with the container as a stage."""
        return TEXT.replace("RUNC", str(self._runtime)).replace("COUNT", str(count))

    def list(self) -> dict[str, int]:
        """Return the containers that the runtime knows, and the process of each."""
        out = self._call("list", "--format", "json")
        return {each["id"]: each["pid"] for each in json.loads(out) or []}

    def delete_all(self) -> None:
        """Remove what is left of containers whose runtime was killed."""
        for name in self.list():
            self._call("delete", "--force", name)

    def _call(self, *words: str) -> str:
        command = [str(self._runtime), "--root", str(self._folder / "containers"), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def find_runtime() -> Path | None:
    """Return runc as it is installed, or as the lab has built it for this user."""
    installed = shutil.which("runc")
    if installed is not None:
        return Path(installed)
    return next(iter(sorted(default(os.environ).root.glob("runc-*/bin/runc"))), None)


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Containers]:
    """Yield the bundle of a container with the program `relu`; skip where none can run."""
    runtime = find_runtime()
    if runtime is None or os.geteuid() != 0 or shutil.which("cc") is None:
        pytest.skip("needs runc (fairlead lab build --profile node), root and cc")
    root = tmp_path / "bundle" / "rootfs"
    for name in ("proc", "dev"):
        (root / name).mkdir(parents=True)
    command: list[str | Path] = ["cc", "-static", "-std=c99", "-O1", "-o", root / "relu", SOURCE / "relu.c"]
    built = subprocess.run(command, check=False, capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"no static program can be built: {built.stderr.splitlines()[-1]}")
    (tmp_path / "bundle" / "config.json").write_text(json.dumps(SPEC))
    probe = [
        str(runtime),
        "--root",
        f"{tmp_path}/probe",
        "run",
        "--bundle",
        f"{tmp_path}/bundle",
        "fairlead-probe",
    ]
    tried = subprocess.run(probe, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if "no hello came" not in tried.stderr:
        pytest.skip(f"no container can run here: {tried.stderr.strip()}")
    made = Containers(runtime, tmp_path)
    yield made
    made.delete_all()


def test_a_program_in_a_container_is_a_stage(tmp_path: Path, containers: Containers) -> None:
    run(containers.text(30), tmp_path)
    results = [line["array"]["crc32"] for line in lines(tmp_path)]
    assert results == [zlib.crc32(np.maximum(values, 0)) for values in halves(30)]
    assert containers.list() == {}, "the runtime has removed every container"


def test_a_container_ends_with_a_run_that_is_killed(tmp_path: Path, containers: Containers) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(containers.text(10**9).replace("$S", STAGES))
    child = start_run(file)
    until = time.monotonic() + LIMIT
    while not (tmp_path / "out.jsonl").exists() or not (tmp_path / "out.jsonl").stat().st_size:
        assert time.monotonic() < until
        assert child.poll() is None
        time.sleep(0.01)
    (pid,) = containers.list().values()
    process = open_process(pid)
    assert process is not None
    assert kill_when(child, lambda: True)
    assert select.select([process], [], [], LIMIT)[0], "the program has seen the end of its input"
    os.close(process)
