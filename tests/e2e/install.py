"""Fairlead as shipped: the chart, installed in the lab by helm, with agents that replay a machine."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairlead.detect import detect
from fairlead.detect.capture import read_gpus
from fairlead.errors import ClusterError
from fairlead.host import Host
from fairlead.inventory import Inventory
from fairlead.lab.build.programs import ensure
from fairlead.publish.labels import is_own_label, labels, restricted_labels
from fairlead.publish.offers import OfferPlan, offers
from fairlead.publish.slices import slices
from fairlead.units import parse_quantity
from tests import catalogs
from tests.e2e.api import CLAIMS, CORE, Api, Document, wait_for
from tests.e2e.machines import Machine
from tests.labs import RealNode

CHART = Path(__file__).parents[2] / "deploy" / "chart"
RELEASE = "fairlead"
NAMESPACE = "fairlead-system"
PORT = 19809
POLICY = "/apis/admissionregistration.k8s.io/v1"
_AGENTS = f"{CORE}/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component=agent"


class Site:
    """One node with an installation of fairlead."""

    def __init__(self, lab: RealNode, api: Api, machine: Machine) -> None:
        self.lab = lab
        self.api = api
        self.machine = machine
        self.name = lab.lab.namespaces[0].node
        self.customized = False
        """Whether it is installed with the values of a test."""
        self._tls = False

    def install(self, values: Mapping[str, Any] | None = None, *files: Path) -> None:
        """Install the chart, or upgrade it to other values, and wait until the agent is ready.

        `files` are files of values, such as the chart's for a distribution.
        """
        self.customized, self._tls = bool(values), "metrics.tls.secretName" in (values or {})
        chosen = {"replay.root": str(self.machine.folder), "agent.sweep": "1s", "agent.sample": "1s"}
        chosen |= values or {}
        settings = [f"--values={file}" for file in files]
        settings += [f"--set-json={path}={json.dumps(value)}" for path, value in chosen.items()]
        before = {pod["metadata"]["uid"] for pod in self.api.items(_AGENTS)}
        spec = self._template()
        self.helm("upgrade", "--install", RELEASE, str(CHART), *settings)
        changed = self._template() != spec
        wait_for(
            "a ready agent",
            lambda: (pod := self.ready_agent()) and not (changed and pod["metadata"]["uid"] in before),
            self.diagnostics,
        )

    def uninstall(self, *flags: str) -> None:
        """Uninstall the chart, and wait until the agents are gone."""
        self.helm("uninstall", RELEASE, *flags)
        wait_for("the agents to end", lambda: not self.api.items(_AGENTS), self.diagnostics)

    def helm(self, *arguments: str) -> str:
        """Run helm, which must succeed."""
        done = self.try_helm(*arguments)
        assert done.returncode == 0, f"{done.stderr}\n{self.diagnostics()}"
        return done.stdout

    def try_helm(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run helm, which may fail."""
        argv = [str(self.lab.helm), *arguments, "--namespace", NAMESPACE]
        return subprocess.run(argv, env=self.lab.environ, capture_output=True, text=True, check=False)

    def replay(self, host: str, *change: Any) -> Inventory:
        """Replay another machine, and wait until it is published."""
        if self.machine.name != host or change:
            self.machine.replay(host, *change)
        return self.wait_published()

    def wait_published(self) -> Inventory:
        """Wait until labels, resources and slices match the machine, with nothing allocated."""
        inventory = self.inventory()
        wait_for("node and kubelet to match the machine", self._is_published, self.differences)
        return inventory

    def wait_labels_published(self) -> None:
        """Wait until the labels match the machine, whatever is allocated."""
        wait_for("labels to match the machine", lambda: self.labels() == self._wanted()[0], self.diagnostics)

    def inventory(self) -> Inventory:
        """Return the inventory of the replayed machine."""
        host = Host(str(self.machine.folder))
        return detect(host, catalogs.shipped(), read_gpus(host))

    def node(self) -> Document:
        """Return the Node object."""
        return self.api.request("GET", f"{CORE}/nodes/{self.name}")

    def labels(self) -> dict[str, str]:
        """Return the node's labels that an agent may write."""
        all_labels = self.node()["metadata"]["labels"]
        return {key: value for key, value in all_labels.items() if is_own_label(key)}

    def allocatable(self) -> dict[str, int]:
        """Return the allocatable amount of each of fairlead's resources."""
        amounts = self.node()["status"]["allocatable"].items()
        return {key: int(value) for key, value in amounts if key.startswith("fairlead.dev/") and value != "0"}

    def slices(self) -> list[Document]:
        """Return the ResourceSlices of fairlead's driver."""
        items = self.api.items(f"{CLAIMS}/resourceslices")
        return [item for item in items if item["spec"]["driver"] == "fairlead.dev"]

    def offered(self) -> dict[str, int]:
        """Return the MiB of each device that claims can have; 0 for a device without memory."""
        return _devices(self.slices())

    def agents(self) -> list[Document]:
        """Return the agent's pods: usually one."""
        return self.api.items(_AGENTS)

    def ready_agent(self) -> Document | None:
        """Return the agent's pod if all its containers run and the agent reports ready.

        The kubelet probes it every five seconds and reports it later: see `probed_agent`.
        """
        for pod in self._not_terminating():
            states = [status["state"] for status in pod["status"].get("containerStatuses", ())]
            if states and all("running" in state for state in states) and self._reports_ready(pod):
                return pod
        return None

    def probed_agent(self) -> Document | None:
        """Return the agent's pod if the kubelet's probe has succeeded."""
        for pod in self._not_terminating():
            conditions = pod["status"].get("conditions", ())
            if any(
                condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
            ):
                return pod
        return None

    def _not_terminating(self) -> list[Document]:
        return [pod for pod in self.agents() if "deletionTimestamp" not in pod["metadata"]]

    def _reports_ready(self, pod: Document) -> bool:
        name = f"{'https:' if self._tls else ''}{pod['metadata']['name']}:{PORT}"
        try:
            body = self.api.text(f"{CORE}/namespaces/{NAMESPACE}/pods/{name}/proxy/readyz")
        except ClusterError:
            return False
        return body == "ready\n"

    def exec(self, *argv: str, container: str = "agent") -> "subprocess.CompletedProcess[str]":
        """Run a program in a container of the agent's pod."""
        pod = wait_for("a ready agent", self.ready_agent, self.diagnostics)
        return self.exec_in(NAMESPACE, pod["metadata"]["name"], container, *argv)

    def exec_in(
        self, namespace: str, pod: str, container: str, *argv: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program in a container; it may fail."""
        kubectl = str(ensure(["kubectl"])["kubectl"])
        command = [kubectl, "exec", "-n", namespace, pod, "-c", container, "--", *argv]
        return subprocess.run(command, env=self.lab.environ, capture_output=True, text=True, check=False)

    def diagnostics(self) -> str:
        """Return the state and logs of the agents, and the last events."""
        lines = []
        for pod in self.agents():
            name = pod["metadata"]["name"]
            lines.append(f"{name}: {json.dumps(pod['status'].get('containerStatuses'))[:1500]}")
            for container in ("open", "agent", "warden"):
                lines += [f"--- {container}", self._log(name, container)]
        events = self.api.items(f"{CORE}/events")[-25:]
        lines += [f"{event['involvedObject'].get('name')}: {event.get('message')}" for event in events]
        return "\n".join(lines)

    def differences(self) -> str:
        """Return the published and the expected state of the node."""
        labels_wanted, capacity_wanted, devices_wanted = self._wanted()
        return (
            f"labels {self.labels()}\nwanted {labels_wanted}\nallocatable {self.allocatable()}\n"
            f"wanted {capacity_wanted}\nslices {self.offered()}\nwanted {devices_wanted}\n"
            f"{self.diagnostics()}"
        )

    def _is_published(self) -> bool:
        labels_wanted, capacity_wanted, devices_wanted = self._wanted()
        return (
            self.labels() == labels_wanted
            and self.allocatable() == capacity_wanted
            and self.offered() == devices_wanted
        )

    def _wanted(self) -> tuple[dict[str, str], dict[str, int], dict[str, int]]:
        inventory = self.inventory()
        healthy = {
            offer.resource: sum(block.count for block in offer.blocks if block.healthy)
            for offer in offers(inventory, (), OfferPlan())
        }
        wanted = {**labels(inventory), **restricted_labels(inventory)}
        listed = {name: count for name, count in healthy.items() if count}
        return wanted, listed, _devices(slices(self.name, "", inventory, (), 0))

    def _template(self) -> object:
        daemonset = self.api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/fairlead-agent")
        return daemonset and daemonset["spec"]["template"]

    def _log(self, pod: str, container: str) -> str:
        try:
            text = self.api.text(f"{CORE}/namespaces/{NAMESPACE}/pods/{pod}/log?container={container}")
        except ClusterError as error:
            return str(error)
        return text[-2000:]


def _devices(resource_slices: list[Document]) -> dict[str, int]:
    devices = [device for item in resource_slices for device in item["spec"].get("devices", ())]
    memory = {
        device["name"]: device.get("capacity", {}).get("memory", {}).get("value", "0") for device in devices
    }
    return {name: parse_quantity(value) >> 20 for name, value in memory.items()}
