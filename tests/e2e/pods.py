"""Pods that request accelerators: their status, and the environment of their processes."""

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
"""The variable that names the pod of a process."""
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
        """Create equal pods concurrently; `claim` names the template of their claims."""
        self.start_with_limits(dict.fromkeys(names, limits or {}), claim, scheduler)

    def start_with_limits(
        self, limits: Mapping[str, Mapping[str, int]], claim: str = "", scheduler: str = ""
    ) -> None:
        """Create pods concurrently, each with its own limits by name."""
        self.make(self.manifest(name, pod_limits, claim, scheduler) for name, pod_limits in limits.items())

    def make(self, manifests: Iterable[Document]) -> None:
        """Create pods concurrently."""
        self.api.create(f"{self._core}/pods", manifests)

    def template(
        self, name: str, mebibytes: int = 0, selector: str = "", klass: str = "fairlead.dev"
    ) -> None:
        """Create a ResourceClaimTemplate: for some memory of a device, or for all of it."""
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
        claims = self.api.items(f"{self._claims}/resourceclaims")
        return {claim["metadata"]["ownerReferences"][0]["name"]: claim for claim in claims}

    def running(self) -> list[str]:
        """Return the names of the running pods."""
        return [name for name, pod in self.all().items() if is_running(pod)]

    def uids(self) -> dict[str, str]:
        """Return the UIDs of the pods by name: a pod that was replaced has another one."""
        return {name: pod["metadata"]["uid"] for name, pod in self.all().items()}

    def rejected(self) -> list[str]:
        """Return the names of the pods that the kubelet rejected for good, as their controller would see it.

        A kubelet that restarts rejects pods whose containers do not run yet, until the agent has registered.
        """
        return [
            name
            for name, pod in self.all().items()
            if pod["status"].get("phase") == "Failed"
            and pod["status"].get("reason") == "UnexpectedAdmissionError"
        ]

    def wait_running(self, names: Sequence[str]) -> None:
        """Wait until all of these run."""
        wait_for(f"{len(names)} pods to run", lambda: set(names) <= set(self.running()), self.explain)

    def wait_pending(self, name: str, reason: str) -> None:
        """Wait until a pod is pending for a reason."""
        wait_for(
            f"{name} to be pending for {reason!r}",
            lambda: reason in pending_reason(self.all()[name]),
            self.explain,
        )

    def environ(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the environment of the pods' processes, from /proc."""
        wanted = set(names)
        return wait_for(
            f"processes of {len(wanted)} pods",
            lambda: environments if wanted <= (environments := self._environments()).keys() else None,
            self.explain,
        )

    def opens(self, name: str, path: str) -> str:
        """Return the kernel's error when a container opens a device; "ok" if it succeeds."""
        done = self.site.exec_in(self.namespace, name, CONTAINER, "sh", "-c", f": <> {path} && echo ok")
        return (done.stdout + done.stderr).strip()

    def run(self, name: str, script: str) -> str:
        """Return the output of a script in a container."""
        done = self.site.exec_in(self.namespace, name, CONTAINER, "sh", "-c", script)
        return (done.stdout + done.stderr).strip()

    def stop(self, names: Iterable[str]) -> None:
        """Delete pods, and wait until they are gone."""
        names = set(names)
        self.api.delete((f"{self._core}/pods/{name}" for name in names), grace=1)
        wait_for("pods to be deleted", lambda: not names & self.all().keys(), self.explain)

    def clear(self) -> None:
        """Delete all pods and remove the accelerators, so that the next test starts clean."""
        self.stop(self.all())
        self.site.replay(NO_ACCELERATORS)

    def explain(self) -> str:
        """Return the state of the pods, their last events, and the agent's diagnostics."""
        lines = [
            f"{name}: {pod['status'].get('phase')} {pending_reason(pod)}" for name, pod in self.all().items()
        ]
        for event in self._events()[-30:]:
            lines.append(f"{event['involvedObject'].get('name')}: {event.get('message')}")
        return "\n".join([*lines, self.site.diagnostics()])

    def events(self, name: str) -> str:
        """Return the messages of a pod's events."""
        events = [event for event in self._events() if event["involvedObject"].get("name") == name]
        return "\n".join(str(event.get("message")) for event in events)

    def _events(self) -> list[Document]:
        try:
            return self.api.items(f"{self._core}/events")
        except ClusterError:
            return []

    def _environments(self) -> dict[str, dict[str, str]]:
        environments = {}
        for pid in filter(str.isdigit, os.listdir(_PROC)):
            environment = environ_of(pid)
            namespace, _, name = environment.get(_NAMED, "").partition("/")
            if namespace == self.namespace:
                environments[name] = environment
        return environments

    def manifest(
        self, name: str, limits: Mapping[str, int], claim: str = "", scheduler: str = ""
    ) -> Document:
        """Return a pod that sleeps, with its name in its environment; by default for the stock scheduler."""
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
    """Return whether all containers of a pod run, and it is not terminating.

    A pod whose container has ended and will be restarted is in phase Running as well.
    """
    status = pod["status"]
    running = all("running" in container["state"] for container in status.get("containerStatuses", ()))
    return bool(status.get("phase") == "Running" and running and "deletionTimestamp" not in pod["metadata"])


def pending_reason(pod: Document) -> str:
    """Return the reasons why a pod does not run."""
    messages = [
        condition.get("message", "")
        for condition in pod["status"].get("conditions", ())
        if condition["status"] == "False"
    ]
    for status in pod["status"].get("containerStatuses", ()):
        messages.append(status.get("state", {}).get("waiting", {}).get("message", ""))
    return "; ".join(filter(None, [*messages, pod["status"].get("message", "")]))
