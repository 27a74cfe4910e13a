"""A device with a network of its own, and the slice of a node that is lent to it, with a share."""

import hashlib
import json
import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.main import main
from fairlead.cluster.kinds import PODS
from tests.e2e.api import wait_for
from tests.e2e.augmentations import GROWS, NAME, LentSlice, kind_installed
from tests.e2e.devicehosts import ADDRESS, CABLE, DeviceHost, device_host
from tests.e2e.install import Site
from tests.e2e.machines import TINY_MIB, TWO_T4, two_tiny
from tests.e2e.nodecrashes import node_down
from tests.e2e.pods import Pods, environ_of, is_running
from tests.e2e.schedulers import placement_rights, running_scheduler
from tests.labs import RealNode
from tests.pipelineobjects.operated import operator

SHARE = 512
SMALLER = f"{NAME}-data-2"
FREE = len(TWO_T4) * TINY_MIB
_PROGRAM = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit()); signal.pause()"
Command = Callable[..., str]
pytestmark = pytest.mark.skipif(
    os.environ.get("FAIRLEAD_CHAOS") != "long", reason="two minutes: FAIRLEAD_CHAOS=long"
)


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


class DeviceFiles:
    """The files of a device: each has its content once, and is compared from both ends."""

    def __init__(self, device: DeviceHost, lent: LentSlice, folder: Path) -> None:
        self._device, self._lent = device, lent
        self._folder, self.fetched = folder / "files", folder / "fetched"
        self._folder.mkdir()
        self.digests: dict[str, str] = {}

    def put(self, name: str, size: int) -> None:
        """Give a file to the device's queue."""
        content = random.Random(name).randbytes(size)
        (self._folder / name).write_bytes(content)
        self._device.run("put", str(self._folder / name))
        self.digests[name] = hashlib.sha256(content).hexdigest()

    def wait_sent(self) -> None:
        """Wait until nothing is left in the device's queue."""
        wait_for("the queue to be empty", lambda: self.waiting() == 0, self._story)

    def waiting(self) -> int:
        """Return how many files wait in the queue; a refused one is a failure."""
        queue = self._device.status()["queue"]
        assert queue["refused"] == 0, self._story()
        return int(queue["waiting"])

    def compare(self, claim: str = f"{NAME}-data") -> None:
        """Compare every byte: on the volume, and as the device gets it."""
        folder = self._lent.volume(claim) / "files"
        found = (path for path in folder.iterdir() if path.is_file())  # uploads have a folder of the store
        stored = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
        assert stored == self.digests
        for name in self.digests:
            self._device.run("get", name, str(self.fetched))
            assert hashlib.sha256(self.fetched.read_bytes()).hexdigest() == self.digests[name]

    def _story(self) -> str:
        return f"{json.dumps(self._device.status())}\n{self._lent.story()}"


def test_a_device_uses_its_slice_across_the_restart_of_a_whole_node(
    lent: LentSlice, device: DeviceHost, site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(verb: str, *more: str) -> str:
        code = main(["augment", verb, NAME, *more, *lent.where])
        out, err = capsys.readouterr()
        assert code == 0, (out, err, lent.story(), site.diagnostics())
        return out

    with operator(site.lab, lent.namespace, tmp_path / "operator.log"):
        application = ("--image", "localhost/fairlead-store:0.1.0", "--command", f'python3 -c "{_PROGRAM}"')
        storage = ("--size", "64Mi", "--class", GROWS)
        command("create", "--device", "camera-7", *storage, *application, "--gpu-mem", f"{SHARE}Mi", "--wait")
        assert_has_share(lent, site)
        invite = json.loads(command("invite", "-o", "json"))
        assert ADDRESS not in invite["url"]
        wait_for("the node to forward", lambda: has_joined(device, invite), lent.story)
        lent.wait_until("DeviceJoined", "True Joined: camera-7 has joined")
        files = DeviceFiles(device, lent, tmp_path)
        with device.agent(tmp_path / "agent.log"):
            for number in range(3):
                files.put(f"first-{number}", 300_000 + number)
            files.wait_sent()
            files.compare()
            rotate(lent, device, command)
            crash_node(lent, device, site, files)
            assert_has_share(lent, site)
            resize(lent, files, command)
            files.wait_sent()
            assert_has_share(lent, site)
            files.compare(SMALLER)
        device.run("leave")
        assert list((device.home / "fairlead" / "devices").iterdir()) == []
        volume = lent.volume(SMALLER)
        command("delete", "--delete-data", "--wait")
        wait_for("nothing to be left", lambda: lent.left() == [], lent.story)
        wait_for("the volume to go", lambda: not volume.exists(), lent.story)
        wait_for("the share to be free", lambda: sum(site.offered().values()) == FREE, site.differences)


def test_nothing_of_a_device_is_left_on_the_node(real_node: RealNode, tmp_path: Path) -> None:
    node = real_node.lab.namespaces[0]
    with device_host(node, tmp_path / "device"):
        assert CABLE in real_node.run("ip", "link").stdout
    assert CABLE not in real_node.run("ip", "link").stdout


def assert_has_share(lent: LentSlice, site: Site) -> None:
    """Assert that the application has its share: in its environment, and in what is left for others."""
    found = environ_of(str(lent.process("application")))
    assert found["FAIRLEAD_DEVICE"] in TWO_T4
    assert found["FAIRLEAD_MEMORY_MIB"] == str(SHARE)
    assert found["FAIRLEAD_AUGMENTATION_DEVICE"] == "camera-7"
    pod = lent.pod("application")
    assert pod["spec"]["schedulerName"] == "fairlead"
    wait_for("the rest", lambda: sum(site.offered().values()) == FREE - SHARE, site.differences)


def has_joined(device: DeviceHost, invite: dict[str, str]) -> bool:
    """Let the device join; False: the node does not forward to the store yet."""
    pin = ("--token", invite["token"], "--fingerprint", invite["fingerprint"])
    done = device.try_run("join", invite["url"], *pin)
    assert done.returncode == 0 or "Connection refused" in done.stderr, done.stderr
    return done.returncode == 0


def rotate(lent: LentSlice, device: DeviceHost, command: Command) -> None:
    """Rotate the token of the slice, and the credential of the device."""
    (old,), credential = lent.tokens(), device.credential()
    command("rotate", "--wait")
    assert lent.tokens()[1] == old
    assert lent.tokens()[0] != old
    device.run("rotate")
    wait_for("another credential", lambda: device.credential() != credential, lent.story)


def crash_node(lent: LentSlice, device: DeviceHost, site: Site, files: DeviceFiles) -> None:
    """Let the node lose its power while the device goes on: what it queued then arrives later."""
    before = lent.process("store")
    uids = {part: lent.pod(part)["metadata"]["uid"] for part in ("store", "application")}
    with node_down(site.lab) as killed:
        assert killed >= 4, "the store, the application, the agent and the DNS server"
        assert not Path(f"/proc/{before}").exists()
        for number in range(4):
            files.put(f"offline-{number}", 200_000 + number)
        refused = device.try_run("get", "first-0", str(files.fetched))
        assert refused.returncode != 0
        assert "Traceback" not in refused.stderr
        assert files.waiting() == 4
    wait_for("a ready agent", site.ready_agent, site.diagnostics)
    wait_for("the store and the application", lambda: have_started_again(lent, uids), lent.story)
    lent.wait_until("Ready", "True")
    files.wait_sent()
    files.compare()


def have_started_again(lent: LentSlice, uids: Mapping[str, str]) -> bool:
    """Return whether both pods run, in containers that were started again or as other pods."""
    label = "fairlead.dev/augmentation-part"
    pods = {each["metadata"]["labels"].get(label): each for each in lent.objects(PODS)}
    return all(
        (pod := pods.get(part)) is not None
        and is_running(pod)
        and (pod["metadata"]["uid"] != uid or any(each["restartCount"] for each in containers_of(pod)))
        for part, uid in uids.items()
    )


def containers_of(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is known of a pod's containers; none if it was just made."""
    return list(pod["status"].get("containerStatuses", ()))


def resize(lent: LentSlice, files: DeviceFiles, command: Command) -> None:
    """Grow, shrink, and move to a smaller claim, while the device uploads."""
    with uploading(files) as written:
        for size in ("96Mi", "48Mi"):
            with lent.synced():
                command("resize", size, "--wait")
            assert lent.resource()["status"]["quota"] == size
            wait_for("more files", more_than(written), lent.story)
        assert lent.claim(f"{NAME}-data")["status"]["capacity"]["storage"] == "96Mi"
        command("resize", "40Mi", "--reclaim", "--wait")
        lent.wait_until("Reclaimed", "True Done")
        wait_for("more files", more_than(written), lent.story)
    assert lent.claim(SMALLER)["status"]["capacity"]["storage"] == "40Mi"


@contextmanager
def uploading(files: DeviceFiles) -> Iterator[list[str]]:
    """Let the device queue one file after the other during the block; yield their names."""
    ended, names = threading.Event(), list[str]()

    def write() -> None:
        while not ended.is_set():
            files.put(f"load-{len(names)}", 50_000 + len(names))
            names.append(f"load-{len(names)}")

    load = threading.Thread(target=write)
    load.start()
    try:
        yield names
    finally:
        ended.set()
        load.join()


def more_than(names: list[str]) -> Callable[[], bool]:
    """Return whether there are more names than now."""
    before = len(names)
    return lambda: len(names) > before
