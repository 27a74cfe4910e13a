"""The lab's CSI driver on a real node: a claim is a file system of its size, which grows while it is used."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.lab.csi.objects import CLASS
from fairlead.lab.node.layout import PLAIN
from tests.e2e.api import wait_for
from tests.labs import RealNode, own_node

_FILL = "dd if=/dev/zero of=/data/{name} bs=1M 2>&1; true"


class MountedClaim:
    """A claim and a pod that has it."""

    def __init__(self, node: RealNode, namespace: str) -> None:
        self.node = node
        self._of = ("-n", namespace)

    def make(self, folder: Path, size: str) -> None:
        """Create both, and wait until the pod runs."""
        (folder / "objects.json").write_text(
            json.dumps({"kind": "List", "apiVersion": "v1", "items": objects(size)})
        )
        self.kubectl("apply", "-f", str(folder / "objects.json"))
        wait_for("the pod to run", lambda: self.get("pod")["status"]["phase"] == "Running", self.story)

    def kubectl(self, *words: str) -> str:
        return self.node.kubectl(*self._of, *words)

    def get(self, kind: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", kind, "writer", "-o", "json"))
        return found

    def run(self, script: str) -> str:
        """Run a script in the pod."""
        return self.kubectl("exec", "writer", "--", "sh", "-c", script)

    def size(self) -> int:
        """Return the size of the file system in the pod, in KiB."""
        return int(self.run("df -k /data | tail -1").split()[1])

    def capacity(self) -> str:
        """Let the kubelet look at the claim at once, and return its capacity."""
        self.kubectl("label", "--overwrite", "pod", "writer", f"sync=a{os.urandom(4).hex()}")
        return str(self.get("pvc")["status"]["capacity"]["storage"])

    def image(self) -> Path:
        """Return the image of the volume."""
        name = self.get("pvc")["spec"]["volumeName"]
        return self.node.lab.folder / "volumes" / f"{name}.xfs"

    def story(self) -> str:
        return self.kubectl("describe", "pod,pvc")[-3000:]


def objects(size: str) -> list[dict[str, Any]]:
    spec = {
        "storageClassName": CLASS,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "writer"},
        "spec": spec,
    }
    container = {
        "name": "writer",
        "image": "localhost/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sleep", "1000"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pod = {
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000},
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "writer"}}],
    }
    return [claim, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "writer"}, "spec": pod}]


def devices(path: Path) -> list[str]:
    """Return the loop devices whose files are below a path."""
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return [text for text in (file.read_text() for file in files) if text.startswith(str(path))]


def test_a_claim_is_a_file_system_of_its_size_that_grows_while_it_is_used(
    real_node: RealNode, node_namespace: str, tmp_path: Path
) -> None:
    real_node.provide_volumes()
    claim = MountedClaim(real_node, node_namespace)
    claim.make(tmp_path, "32Mi")
    image = claim.image()
    assert "No space left on device" in claim.run(_FILL.format(name="first"))
    full, digest = claim.size(), claim.run("sha256sum /data/first")
    assert full <= 32 << 10

    claim.kubectl("patch", "pvc", "writer", "-p", '{"spec":{"resources":{"requests":{"storage":"64Mi"}}}}')
    wait_for("the claim to have grown", lambda: claim.capacity() == "64Mi", claim.story)
    assert full + (30 << 10) <= claim.size() <= 64 << 10
    real_node.restart("volumes", kill=True)
    assert "No space left on device" in claim.run(_FILL.format(name="second"))
    assert claim.run("sha256sum /data/first") == digest

    claim.kubectl("delete", "pod", "writer", "--wait")
    claim.kubectl("delete", "pvc", "writer", "--wait")
    wait_for(
        "the volume to go", lambda: not image.exists() and not devices(image), claim.node.environ.__repr__
    )
    wait_for("its object to go", lambda: image.stem not in real_node.kubectl("get", "pv", "-o", "name"))


@contextmanager
def lab_of_two() -> Iterator[RealNode]:
    """Run a lab of two nodes with volumes."""
    with own_node(PLAIN, nodes=2) as node:
        node.provide_volumes()
        yield node


@pytest.mark.skipif(
    os.environ.get("FAIRLEAD_CHAOS") != "long", reason="a lab of two nodes: FAIRLEAD_CHAOS=long"
)
def test_a_lab_that_ends_with_mounted_volumes_leaves_no_device(tmp_path: Path) -> None:
    with lab_of_two() as node:
        names = [each.name for each in node.lab.programs]
        assert {"volumes", "volumes-2"} <= set(names)
        claim = MountedClaim(node, "default")
        claim.make(tmp_path, "32Mi")
        folder = node.lab.folder
        assert devices(folder)
    wait_for("the devices to be freed", lambda: not devices(folder))
    assert not folder.exists()
