"""One job on a device behind a slow link and on a pod with a share, which is evicted in the middle."""

import hashlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.cli.main import main
from tests.e2e.api import wait_for
from tests.e2e.augmentations import GROWS, NAME, LentSlice, kind_installed
from tests.e2e.devicehosts import DeviceHost, device_host
from tests.e2e.install import Site
from tests.e2e.machines import two_tiny
from tests.e2e.pods import Pods
from tests.e2e.schedulers import placement_rights, running_scheduler
from tests.e2e.test_augmented_device import assert_has_share, has_joined
from tests.labs import RealNode
from tests.pipelineobjects.operated import operator

pytestmark = pytest.mark.skipif(
    os.environ.get("FAIRLEAD_CHAOS") != "long", reason="a minute: FAIRLEAD_CHAOS=long"
)
INPUTS, BYTES = 240, 20_000
LINK = 4_000_000.0
"""Bits a second that the device sends: 25 inputs."""
_WORK = """
import hashlib, sys, time
content = open(sys.argv[1], "rb").read()
time.sleep(0.1)
print(hashlib.sha256(content[::-1]).hexdigest(), len(content))
"""


@pytest.fixture
def lent(pods: Pods, real_node: RealNode, tmp_path: Path) -> Iterator[LentSlice]:
    """Return a namespace of a node with two accelerators, an agent, our scheduler, the kind and volumes."""
    pods.site.replay("server-t4", two_tiny)
    with kind_installed(real_node), placement_rights(pods.site), running_scheduler(real_node):
        yield LentSlice(real_node, pods.namespace, tmp_path)


@pytest.fixture
def device(lent: LentSlice, real_node: RealNode, tmp_path: Path) -> Iterator[DeviceHost]:
    """Return a device that is joined to the node by a cable."""
    with device_host(real_node.lab.namespaces[0], tmp_path / "device") as host:
        yield host


def test_a_job_survives_the_eviction_of_its_pod(
    lent: LentSlice, device: DeviceHost, site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(verb: str, *more: str) -> str:
        code = main(["augment", verb, NAME, *more, *lent.where])
        out, err = capsys.readouterr()
        assert code == 0, (out, err, lent.story(), site.diagnostics())
        return out

    expected = write_inputs(tmp_path / "in")
    (tmp_path / "work.py").write_text(_WORK)
    worker = ("--image", "localhost/fairlead-store:0.1.0", "--command", "fairlead augment work")
    with operator(site.lab, lent.namespace, tmp_path / "operator.log"):
        storage = ("--size", "64Mi", "--class", GROWS)
        command("create", "--device", "camera-7", *storage, *worker, "--gpu-mem", "512Mi", "--wait")
        assert_has_share(lent, site)
        invite = json.loads(command("invite", "-o", "json"))
        wait_for("the node to forward", lambda: has_joined(device, invite), lent.story)
        device.limit(LINK)
        job = ("--inputs", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--policy", "split")
        program = ("--command", "python3 {with}/work.py {input}", "--with", str(tmp_path / "work.py"))
        with device.submitted(*job, *program, "-o", "json") as submitted:
            wait_for("results of the pod", lambda: len(results(lent)) > INPUTS // 4, lent.story)
            uid = lent.evict("application")
            assert submitted.poll() is None, "the job had ended before the eviction"
            wait_for("another pod", lambda: runs_again(lent, uid), lent.story)
            assert submitted.poll() is None, "the job had ended before the pod was back"
            out, err = submitted.communicate(timeout=300)
        assert submitted.returncode == 0, (out, err, lent.story())
        document = json.loads(out)
        done = {each["site"]: each["done"] for each in document["workers"]}
        assert done["device"] + done["pod"] == INPUTS, document
        assert min(done.values()) > INPUTS // 10, document
        assert document["server_seconds_saved"] > 0
        found = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
        assert found == expected
        assert {path.name: path.read_text() for path in results(lent)} == expected
        assert_has_share(lent, site)
        device.run("leave")
        command("delete", "--delete-data", "--wait")


def write_inputs(folder: Path) -> dict[str, str]:
    """Write the inputs; return what each one's result must be."""
    folder.mkdir()
    expected = {}
    for number in range(INPUTS):
        content = random.Random(number).randbytes(BYTES)
        (folder / f"{number}.raw").write_bytes(content)
        expected[f"{number}.raw"] = f"{hashlib.sha256(content[::-1]).hexdigest()} {BYTES}\n"
    return expected


def results(lent: LentSlice) -> list[Path]:
    """Return the results on the volume."""
    return [path for path in (lent.volume() / "files" / "jobs").glob("*/out/*.raw") if path.is_file()]


def runs_again(lent: LentSlice, uid: str) -> bool:
    """Return whether another pod of the application runs."""
    pods = [each for each in lent.pods("application") if each["metadata"]["uid"] != uid]
    return any((each.get("status") or {}).get("phase") == "Running" for each in pods)
