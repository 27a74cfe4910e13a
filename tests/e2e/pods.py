"""Pods that want accelerators, what becomes of them, and what their processes really see."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.errors import ClusterError
from tests.e2e.api import CLAIMS, CORE, Document, wait_for
from tests.e2e.install import Site
from tests.e2e.machines import NO_ACCELERATORS

IMAGE = "localhost/busybox:1"
CONTAINER = "main"
_NAMED = "TEST_POD"
"""A variable by which a process says whose it is."""
_PROC = Path("/proc")


class Pods:
    """The pods of one namespace."""

    def __init__(self, site: Site, namespace: str) -> None:
        self.site = site
        self.api = site.api
        self.namespace = namespace
        self._core = f"{CORE}/namespaces/{namespace}"
        self._claims = f"{CLAIMS}/namespaces/{namespace}"

    def start(
        self,
        names: Iterable[str],
        limits: Mapping[str, int] | None = None,
        claim: str = "",
        scheduler: str = "",
    ) -> None:
        """Make pods that are alike, all at once; `claim` names the template of their claims."""
        self.start_each(dict.fromkeys(names, limits or {}), claim, scheduler)

    def start_each(
        self, limits: Mapping[str, Mapping[str, int]], claim: str = "", scheduler: str = ""
    ) -> None:
        """Make pods, by name each with limits of its own, all at once."""
        self.make(self.manifest(name, each, claim, scheduler) for name, each in limits.items())

    def make(self, manifests: Iterable[Document]) -> None:
        """Make pods, all at once."""
        self.api.create(f"{self._core}/pods", manifests)

    def template(
        self, name: str, mebibytes: int = 0, selector: str = "", klass: str = "fairlead.dev"
    ) -> None:
        """Make a template of claims: for some memory of a device, or for all of it."""
        exactly: dict[str, Any] = {"deviceClassName": klass}
        if mebibytes:
            exactly["capacity"] = {"requests": {"memory": f"{mebibytes}Mi"}}
        if selector:
            exactly["selectors"] = [{"cel": {"expression": selector}}]
        spec = {"spec": {"devices": {"requests": [{"name": "it", "exactly": exactly}]}}}
        self.api.create(
            f"{self._claims}/resourceclaimtemplates", [{"metadata": {"name": name}, "spec": spec}]
        )

    def all(self) -> dict[str, Document]:
        """Return the pods by name."""
        return {item["metadata"]["name"]: item for item in self.api.items(f"{self._core}/pods")}

    def claims(self) -> dict[str, Document]:
        """Return the claims by the name of their pod."""
        found = self.api.items(f"{self._claims}/resourceclaims")
        return {each["metadata"]["ownerReferences"][0]["name"]: each for each in found}

    def running(self) -> list[str]:
        """Return the names of the pods that run."""
        return [name for name, pod in self.all().items() if is_running(pod)]

    def wait_running(self, names: Sequence[str]) -> None:
        """Wait until all of these run."""
        wait_for(f"{len(names)} pods to run", lambda: set(names) <= set(self.running()), self.explain)

    def wait_pending(self, name: str, reason: str) -> None:
        """Wait until a pod waits, and says why."""
        wait_for(
            f"{name} to wait for {reason!r}", lambda: reason in waits_for(self.all()[name]), self.explain
        )

    def environ(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the environment of the pods' processes, as the kernel has it."""
        wanted = set(names)
        return wait_for(
            f"processes of {len(wanted)} pods",
            lambda: found if wanted <= (found := self._environments()).keys() else None,
            self.explain,
        )

    def opens(self, name: str, path: str) -> str:
        """Return what the kernel says to a container that opens a device; "ok" where it may."""
        done = self.site.exec_in(self.namespace, name, CONTAINER, "sh", "-c", f": <> {path} && echo ok")
        return (done.stdout + done.stderr).strip()

    def run(self, name: str, script: str) -> str:
        """Return what a script says that runs in a container."""
        done = self.site.exec_in(self.namespace, name, CONTAINER, "sh", "-c", script)
        return (done.stdout + done.stderr).strip()

    def stop(self, names: Iterable[str]) -> None:
        """Delete pods, and wait until the kubelet has let them go."""
        names = set(names)
        self.api.delete((f"{self._core}/pods/{name}" for name in names), grace=1)
        wait_for("pods to go", lambda: not names & self.all().keys(), self.explain)

    def clear(self) -> None:
        """Delete all pods and take the accelerators away, so that the next test finds nothing of this one."""
        self.stop(self.all())
        self.site.become(NO_ACCELERATORS)

    def explain(self) -> str:
        """Return what a person would look at first."""
        lines = [f"{name}: {pod['status'].get('phase')} {waits_for(pod)}" for name, pod in self.all().items()]
        for event in self._events()[-30:]:
            lines.append(f"{event['involvedObject'].get('name')}: {event.get('message')}")
        return "\n".join([*lines, self.site.trouble()])

    def events(self, name: str) -> str:
        """Return what was said of a pod."""
        found = [each for each in self._events() if each["involvedObject"].get("name") == name]
        return "\n".join(str(each.get("message")) for each in found)

    def _events(self) -> list[Document]:
        try:
            return self.api.items(f"{self._core}/events")
        except ClusterError:
            return []

    def _environments(self) -> dict[str, dict[str, str]]:
        found = {}
        for pid in filter(str.isdigit, os.listdir(_PROC)):
            environment = environ_of(pid)
            namespace, _, name = environment.get(_NAMED, "").partition("/")
            if namespace == self.namespace:
                found[name] = environment
        return found

    def manifest(
        self, name: str, limits: Mapping[str, int], claim: str = "", scheduler: str = ""
    ) -> Document:
        """Return a pod that sleeps and says whose it is; without a scheduler, it is for the cluster's own."""
        container: Document = {
            "name": CONTAINER,
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", "trap exit TERM; sleep 100000 & wait"],
            "env": [{"name": _NAMED, "value": f"{self.namespace}/{name}"}],
            "resources": {"limits": {key: str(value) for key, value in limits.items()}},
        }
        spec: Document = {
            "containers": [container],
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            **({"schedulerName": scheduler} if scheduler else {}),
        }
        if claim:
            container["resources"]["claims"] = [{"name": "it"}]
            spec["resourceClaims"] = [{"name": "it", "resourceClaimTemplateName": claim}]
        return {"metadata": {"name": name}, "spec": spec}


def environ_of(pid: str) -> dict[str, str]:
    """Return the environment that a process was started with."""
    try:
        text = (_PROC / pid / "environ").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = ((pair.partition("=")[0], pair.partition("=")[2]) for pair in text.split("\0") if "=" in pair)
    return dict(pairs)


def is_running(pod: Document) -> bool:
    """Say whether a pod runs with all its containers, and is not about to go.

    A pod whose container has ended and is to start again is in phase Running as well.
    """
    status = pod["status"]
    running = all("running" in each["state"] for each in status.get("containerStatuses", ()))
    return bool(status.get("phase") == "Running" and running and "deletionTimestamp" not in pod["metadata"])


def waits_for(pod: Document) -> str:
    """Return why a pod does not run."""
    said = [
        each.get("message", "") for each in pod["status"].get("conditions", ()) if each["status"] == "False"
    ]
    for each in pod["status"].get("containerStatuses", ()):
        said.append(each.get("state", {}).get("waiting", {}).get("message", ""))
    return "; ".join(filter(None, [*said, pod["status"].get("message", "")]))
