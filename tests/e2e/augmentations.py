"""An Augmentation on a real node: its volumes, the device that uses it, and what is left of it."""

import asyncio
import hashlib
import itertools
import json
import os
import ssl
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import CONFIG_MAPS, PODS
from fairlead.lab.csi.objects import CLAIMS, CLASSES, DRIVER, VOLUMES, storage_class
from fairlead.lab.node import namespaces
from tests.augmentobjects.test_real_api import AUGMENTATIONS
from tests.e2e.api import wait_for
from tests.images import store_archive
from tests.kinds import define_kind, forget_kind
from tests.labs import RealApi, RealNode
from tests.pipelineobjects.deployed import POLICIES, SECRETS, SERVICES

NAME = "cam"
GROWS, STAYS = "test-grows", "test-stays"
_DEVICE = """
import hashlib, json, ssl, sys, time, urllib.error, urllib.request
verb, url, token, path, size, seed = sys.argv[1:7]
context = ssl._create_unverified_context()  # the fingerprint was compared by the test
def content():
    block = hashlib.sha256(seed.encode()).digest() * 2048
    return (block * (int(size) // len(block) + 1))[:int(size)]
body = content() if verb == "PUT" else None
request = urllib.request.Request(url + path, body, {"Authorization": "Bearer " + token}, method=verb)
for attempt in range(300):
    try:
        with urllib.request.urlopen(request, context=context, timeout=60) as answer:
            read = answer.read()
            print(json.dumps({"status": answer.status, "sha256": hashlib.sha256(read).hexdigest()}))
        break
    except urllib.error.HTTPError as error:
        print(json.dumps({"status": error.code, "text": error.read().decode(errors="replace")[:200]}))
        break
    except urllib.error.URLError as error:
        # A node forwards to a store some moments after that is ready; nothing was sent yet.
        if not isinstance(error.reason, ConnectionRefusedError) or attempt == 299:
            raise
        time.sleep(0.1)
"""


def expected(size: int, seed: str) -> str:
    """Return the digest of a file that a device has put."""
    block = hashlib.sha256(seed.encode()).digest() * 2048
    return hashlib.sha256((block * (size // len(block) + 1))[:size]).hexdigest()


@contextmanager
def kind_installed(node: RealNode) -> Iterator[None]:
    """Serve the kind Augmentation during the block, on a node that has the image, with classes of volumes."""
    node.load(store_archive())
    api = RealApi(node.config, node.kubeconfig, node.lab)
    define_kind(api, "augmentations.yaml", AUGMENTATIONS)
    node.provide_volumes()
    asyncio.run(_set_classes(node, present=True))
    try:
        yield
    finally:
        asyncio.run(_abandon(node))
        forget_kind(api, "augmentations.yaml")
        wait_for("volumes to be removed", lambda: not _volumes(node))
        asyncio.run(_set_classes(node, present=False))


async def _set_classes(node: RealNode, *, present: bool) -> None:
    """Create or delete the classes of the test."""
    async with Client.connect(node.config) as client:
        for each in (storage_class(GROWS), storage_class(STAYS, can_grow=False)):
            if present:
                await client.create(CLASSES.raw(), each)
            else:
                await client.delete(CLASSES.raw(), each["metadata"]["name"])


async def _abandon(node: RealNode) -> None:
    """Let what a test that has failed left go without an operator."""
    async with Client.connect(node.config) as client:
        for each in (await client.list(AUGMENTATIONS)).items:
            meta = each.metadata
            await client.patch(AUGMENTATIONS, meta.name, {"metadata": {"finalizers": None}}, meta.namespace)
        for each in (await client.list(PODS.raw(), labels="fairlead.dev/augmentation")).items:
            await client.delete(PODS, each.metadata.name, each.metadata.namespace, grace=1)
        for each in (await client.list(CLAIMS.raw(), labels="fairlead.dev/augmentation")).items:
            await client.delete(CLAIMS.raw(), each.metadata.name, each.metadata.namespace)


def _volumes(node: RealNode) -> list[Any]:
    async def read() -> list[Any]:
        async with Client.connect(node.config) as client:
            return list((await client.list(VOLUMES.raw())).items)

    return asyncio.run(read())


class LentSlice:
    """The objects of the one Augmentation of a namespace, and its device."""

    def __init__(self, node: RealNode, namespace: str, folder: Path) -> None:
        self._node = node
        self.namespace = namespace
        self.where = ("--kubeconfig", str(node.kubeconfig), "-n", namespace)
        """The options that name the namespace."""
        self._program = folder / "device.py"
        self._program.write_text(_DEVICE)

    def objects(self, kind: Any) -> list[dict[str, Any]]:
        """Return the objects of the namespace."""

        async def read() -> list[dict[str, Any]]:
            async with Client.connect(self._node.config) as client:
                return [each.document() for each in (await client.list(kind.raw(), self.namespace)).items]

        return asyncio.run(read())

    def resource(self) -> dict[str, Any]:
        """Return the Augmentation."""
        (found,) = self.objects(AUGMENTATIONS)
        return found

    def says(self, kind: str) -> str:
        """Return what a condition of the present spec says."""
        found = self.resource()
        status = found.get("status") or {}
        if status.get("observedGeneration") != found["metadata"]["generation"]:
            return ""
        at = next((each for each in status["conditions"] if each["type"] == kind), None)
        return f"{at['status']} {at['reason']}: {at['message']}" if at else ""

    def wait_until(self, kind: str, start: str) -> None:
        """Wait until a condition says something."""
        wait_for(f"{kind} to be {start}", lambda: self.says(kind).startswith(start), self.story)

    def claim(self, name: str) -> dict[str, Any]:
        """Return a claim."""
        return next(each for each in self.objects(CLAIMS) if each["metadata"]["name"] == name)

    def pods(self, part: str) -> list[dict[str, Any]]:
        """Return the pods of a part: one, or none while it is made again."""
        label = "fairlead.dev/augmentation-part"
        return [each for each in self.objects(PODS) if each["metadata"]["labels"].get(label) == part]

    def pod(self, part: str) -> dict[str, Any]:
        """Return the pod of a part."""
        return next(iter(self.pods(part)))

    def tokens(self) -> list[str]:
        """Return the tokens that the store accepts."""

        secret = next(
            each for each in self.objects(SECRETS) if each["metadata"]["name"] == f"{NAME}-credentials"
        )
        return b64decode(secret["data"]["token"]).decode().split()

    def device(self, verb: str, path: str, token: str, size: int = 0, seed: str = "") -> dict[str, Any]:
        """Let the device send a request, from a network of its own that reaches the node."""
        status = self.resource()["status"]
        url = status["url"]
        words = [sys.executable, str(self._program), verb, url, token, path, str(size), seed or path]
        entered = namespaces.enter_network(self._node.lab.namespaces[0], words)
        done = subprocess.run(entered, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stderr, self.story())
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def join(self, *words: str) -> None:
        """Let the device join, with a home of its own."""
        command = [sys.executable, "-m", "fairlead", "device", "join", *words]
        home = self._program.parent / "home"
        home.mkdir()
        entered = namespaces.enter_network(self._node.lab.namespaces[0], command)
        env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home), "XDG_CONFIG_HOME": str(home)}
        done = subprocess.run(entered, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == 0, (done.stdout, done.stderr, self.story())

    def restarts(self, part: str) -> int:
        """Return how often containers of a pod were started again."""
        listed = self.pod(part)["status"]["containerStatuses"]
        return max(int(each["restartCount"]) for each in listed)

    def volume(self, claim: str = f"{NAME}-data") -> Path:
        """Return where a claim's volume is mounted, as this machine sees it."""
        handle = hashlib.sha256(f"pvc-{self.claim(claim)['metadata']['uid']}".encode()).hexdigest()
        process = Path("/proc") / str(self._node.lab.namespaces[0].init.pid)
        root = process / "root" / "var/lib/kubelet"
        return root / "plugins/kubernetes.io/csi" / DRIVER / handle / "globalmount"

    @contextmanager
    def synced(self) -> Iterator[None]:
        """Let the kubelet sync the store's pod all the time: else it grows a file system some 15 s later."""
        ended = threading.Event()

        async def label() -> None:
            async with Client.connect(self._node.config) as client:
                for number in itertools.count():
                    if ended.is_set():
                        return
                    name = (await asyncio.to_thread(self.pod, "store"))["metadata"]["name"]
                    labels = {"metadata": {"labels": {"sync": str(number)}}}
                    await client.patch(PODS, name, labels, self.namespace)
                    await asyncio.sleep(0.3)

        thread = threading.Thread(target=lambda: asyncio.run(label()))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def delete_pod(self, name: str) -> None:
        """Delete a pod at once."""

        async def inside() -> None:
            async with Client.connect(self._node.config) as client:
                await client.delete(PODS, name, self.namespace, grace=0)

        asyncio.run(inside())

    def evict(self, part: str) -> str:
        """Evict the pod of a part through the API, as a drain of its node does; return its uid."""
        meta = self.pod(part)["metadata"]
        path = f"/api/v1/namespaces/{self.namespace}/pods/{meta['name']}/eviction"
        names = {"name": meta["name"], "namespace": self.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": names}

        async def inside() -> None:
            async with Client.connect(self._node.config) as client:
                await client.request("POST", path, body=json.dumps(body).encode())

        asyncio.run(inside())
        return str(meta["uid"])

    def process(self, part: str) -> int:
        """Return the process id, on this machine, of the program of a pod."""
        uid = self.pod(part)["metadata"]["uid"]

        def look() -> int | None:
            for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
                with suppress(OSError, StopIteration):
                    words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
                    if f"pod{uid}" in Path(f"/proc/{pid}/cgroup").read_text() and "python" in words:
                        return pid
            return None

        return wait_for(f"the process of the {part}", look, self.story)

    def story(self) -> str:
        """Return conditions and pods, for a message."""
        found = [each.get("status") for kind in (AUGMENTATIONS, CLAIMS, PODS) for each in self.objects(kind)]
        return json.dumps(found)[:8000]

    def left(self) -> list[str]:
        """Return what the Augmentation has left; one ConfigMap is of every namespace."""
        kinds = (AUGMENTATIONS, SECRETS, SERVICES, POLICIES, PODS, CONFIG_MAPS, CLAIMS)
        names = [each["metadata"]["name"] for kind in kinds for each in self.objects(kind)]
        return [name for name in names if name != "kube-root-ca.crt"]


def fingerprint_of(pem: bytes) -> str:
    """Return the fingerprint of a certificate."""
    return f"sha256:{hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.decode())).hexdigest()}"
