"""The rendered chart: unprivileged pods, roles without wildcards, and clear errors for invalid values."""

import json
import re
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from deploy import render
from fairlead import __version__
from fairlead.catalog.device import KINDS
from fairlead.cli.main import build_parser
from fairlead.schedule.score.policies import POLICIES
from fairlead.settings.agent import agent_settings
from tests.deploy.chart.charts import (
    OPTIONS,
    RUNNING,
    Chart,
    Document,
    Values,
    containers,
    mounts,
    one,
    pods,
)

REJECTED: dict[str, tuple[Values, str]] = {
    "a misspelt value": ({"image.tga": "1"}, "'tga' not allowed"),
    "a misspelt group": ({"metrik.port": 1}, "'metrik' not allowed"),
    "a port of the system": ({"metrics.port": 80}, "at '/metrics/port': minimum"),
    "a word for a switch": ({"publish.labels": "maybe"}, "at '/publish/labels': got string, want boolean"),
    "an unknown unit": ({"memoryUnit": "TiB"}, "one of 'MiB', 'GiB'"),
    "a relative folder": ({"kubeletDir": "kubelet"}, "at '/kubeletDir'"),
    "a folder with a quote": ({"kubeletDir": '/var/lib/"kubelet'}, "at '/kubeletDir'"),
    "an account that is none": ({"serviceAccount.name": 'a" || true || "'}, "at '/serviceAccount/name'"),
    "a digest that is none": ({"image.digest": "latest"}, "at '/image/digest'"),
    "a time without a unit": ({"agent.sweep": "5"}, "at '/agent/sweep'"),
    "all agents and more": ({"maxUnavailable": "110%"}, "at '/maxUnavailable'"),
    "claims without CDI": ({"warden.cdi.enabled": False}, "publish.claims: claims reach containers"),
    "claims without warden": ({"warden.enabled": False}, "or publish.claims to false"),
    "a token in the clear": ({"metrics.token.secretName": "t"}, "Set metrics.tls.secretName as well"),
    "legacy labels alone": (
        {"publish.labels": False, "publish.legacyLabels": True},
        "Set publish.labels to true",
    ),
    "profiles of no kind": (
        {"profiles.enabled": False, "profiles.agentsWrite": True},
        "Set profiles.enabled to true",
    ),
    "models of no kind": (
        {"profiles.enabled": False, "analyser.enabled": True},
        "Set profiles.enabled to true",
    ),
    "a second default scheduler": (
        {"scheduler": {"enabled": True, "name": "default-scheduler"}},
        "default-scheduler is the cluster's own",
    ),
    "clients without TLS": (
        {"extender": {"enabled": True, "tls": {"clients": True}}},
        "Set extender.tls.secretName as well",
    ),
    "a policy that is none": ({"scheduler.policy": "nonsense"}, "at '/scheduler/policy'"),
    "a policy of the extender that is none": ({"extender.policy": "nonsense"}, "at '/extender/policy'"),
    "a policy of one's own that could be none": ({"scheduler.ownPolicy": "no sense"}, "/scheduler/ownPolicy"),
    "a period of nothing": ({"agent.sample": "0s"}, "at '/agent/sample'"),
    "a period that is too short": ({"agent.sweep": "99ms"}, "at '/agent/sweep'"),
    "a period that is too long": ({"agent.sweep": "25h"}, "at '/agent/sweep'"),
    "a period that Prometheus does not know": (
        {"metrics.podMonitor.interval": "1.5s"},
        "at '/metrics/podMonitor/interval'",
    ),
    "an uninstall that waits too long": ({"cleanup.waitSeconds": 300}, "at '/cleanup/waitSeconds'"),
    "a certificate of no authority": (
        {"scheduler.admission.tls.secretName": "mine"},
        "Set secretName and caBundle, or neither",
    ),
    "a namespace that is none": (
        {"scheduler.admission.protect": ["kube system"]},
        "at '/scheduler/admission/protect/0'",
    ),
    "no replica": ({"scheduler.replicas": 0}, "at '/scheduler/replicas'"),
    "limits of HAMi without a limiter": ({"limiter.hami": True}, "Set limiter.enabled to true"),
    "a limiter in user namespaces": ({"limiter.enabled": True, "userNamespaces": True}, "limiter.enabled"),
    "replay in a user namespace": ({"replay.root": "/x", "userNamespaces": True}, "replay.root"),
}

MOUNTS = {
    "open": {
        "/var/lib/kubelet/plugins/fairlead.dev": "rw /var/lib/kubelet/plugins/fairlead.dev",
        "/var/lib/kubelet/plugins_registry/fairlead.dev": "rw /var/lib/kubelet/plugins_registry/fairlead.dev",
        "/host/etc": "ro /etc",
        "/host/var/lib/nvpmodel": "ro /var/lib/nvpmodel",
        "/board": "rw emptyDir",
    },
    "agent": {
        "/var/run/secrets/kubernetes.io/serviceaccount": "ro projected",
        "/host/sys": "ro /sys",
        "/host/dev": "ro /dev",
        "/host/proc/cpuinfo": "ro /proc/cpuinfo",
        "/host/proc/meminfo": "ro /proc/meminfo",
        "/host/proc/stat": "ro /proc/stat",
        "/host/proc/driver": "ro /proc/driver",
        "/host/etc": "ro emptyDir",
        "/host/var/lib/nvpmodel": "ro emptyDir",
        "/host/var/run/cdi": "ro /var/run/cdi",
        "/var/lib/kubelet/plugins/fairlead.dev": "rw /var/lib/kubelet/plugins/fairlead.dev",
        "/var/lib/kubelet/plugins_registry/fairlead.dev": "rw /var/lib/kubelet/plugins_registry/fairlead.dev",
        "/run/fairlead": "ro emptyDir",
        "/run/fairlead-attribution": "ro /run/fairlead-attribution",
        "/var/log/containers": "ro /var/log/containers",
    },
    "warden": {
        "/run/fairlead": "rw emptyDir",
        "/var/lib/kubelet/pod-resources": "ro /var/lib/kubelet/pod-resources",
        "/var/run/cdi": "rw /var/run/cdi",
        "/host/sys": "ro /sys",
        "/host/dev": "ro /dev",
    },
}
"""All mounts of the pod's containers."""


@pytest.fixture(scope="session", params=OPTIONS)
def documents(request: pytest.FixtureRequest, chart: Chart) -> list[Document]:
    """Return the documents of one set of values, hooks included."""
    return chart.render(OPTIONS[request.param])


def test_helm_lint_passes(chart: Chart) -> None:
    command = [str(chart.helm), "lint", "--strict", str(render.CHART)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "0 chart(s) failed" in done.stdout, done.stdout


@pytest.mark.parametrize("what", REJECTED)
def test_invalid_values_are_rejected_with_a_reason(what: str, chart: Chart) -> None:
    values, words = REJECTED[what]
    assert words in chart.error(values)


def test_the_schema_lists_every_policy(chart: Chart) -> None:
    schema = json.loads((render.CHART / "values.schema.json").read_text())["properties"]
    for name in ("scheduler", "extender"):
        assert set(schema[name]["properties"]["policy"]["enum"]) == POLICIES.keys()
        own = chart.render({name: {"enabled": True, "ownPolicy": "tidy"}})
        pod = one(own, "Deployment", f"fairlead-{name}")["spec"]["template"]["spec"]
        assert "--policy=tidy" in containers(pod)[name]["args"]


@pytest.mark.parametrize(
    "period", ["100ms", "999999ms", "0.5s", "2.5s", "1s", "86400s", "1m", "1440m", "1h", "24h"]
)
def test_the_schema_accepts_the_agents_periods(period: str) -> None:
    schema = json.loads((render.CHART / "values.schema.json").read_text())["properties"]
    assert re.search(schema["agent"]["properties"]["sweep"]["pattern"], period)
    assert agent_settings(sweep=period).sweep


def test_the_chart_has_the_version_of_the_program() -> None:
    metadata = yaml.safe_load((render.CHART / "Chart.yaml").read_text())
    assert (metadata["version"], metadata["appVersion"]) == (__version__, __version__)


def test_every_default_is_in_the_schema() -> None:
    schema = json.loads((render.CHART / "values.schema.json").read_text())
    values = yaml.safe_load((render.CHART / "values.yaml").read_text())
    known = {path for path, _, _ in render.leaves(schema, values)}
    assert set(_paths(values, known)) == known


def _paths(values: Document, known: set[str], above: str = "") -> Iterator[str]:
    for name, value in values.items():
        path = f"{above}{name}"
        if isinstance(value, dict) and path not in known:
            yield from _paths(value, known, f"{path}.")
        else:
            yield path


def test_no_container_has_more_privileges_than_it_needs(documents: list[Document]) -> None:
    for pod in pods(documents):
        assert not {"hostNetwork", "hostIPC"} & pod.keys()
        assert "hostPID" not in pod or containers(pod).keys() == {"attribution"}
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in containers(pod).values():
            context = {**pod["securityContext"], **container["securityContext"]}
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert not {"privileged", "seLinuxOptions", "fsGroup", "sysctls"} & context.keys()
            assert context["runAsUser"] == context["runAsGroup"], "without a group it would be root's"
            assert context["runAsUser"] == 0 or context["runAsNonRoot"]
            assert set(container["resources"]["limits"]) == {"memory"}


def test_only_the_warden_and_the_init_container_are_root(chart: Chart) -> None:
    pod = one(chart.render({}), "DaemonSet", "fairlead-agent")["spec"]["template"]["spec"]
    users = {name: container["securityContext"]["runAsUser"] for name, container in containers(pod).items()}
    assert users == {"open": 0, "agent": 10001, "warden": 0}
    assert pod["securityContext"]["supplementalGroups"] == [10001]


def test_the_mounts_of_the_containers(chart: Chart) -> None:
    pod = one(chart.render({}), "DaemonSet", "fairlead-agent")["spec"]["template"]["spec"]
    assert {name: mounts(pod, name) for name in containers(pod)} == MOUNTS


def test_attribution_is_a_pod_of_its_own_without_token_and_network(chart: Chart) -> None:
    documents = chart.render({})
    pod = one(documents, "DaemonSet", "fairlead-attribution")["spec"]["template"]["spec"]
    assert (pod["hostPID"], pod["automountServiceAccountToken"]) == (True, False)
    assert "serviceAccountName" not in pod
    (container,) = containers(pod).values()
    assert container["securityContext"]["runAsUser"] == 0
    assert mounts(pod, "attribution") == {"/run/fairlead-attribution": "rw /run/fairlead-attribution"}
    assert "ports" not in container
    policy = one(documents, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & policy.keys(), "a rule would allow something"
    jetson = chart.render({"attribution.debugfs": True})
    pod = one(jetson, "DaemonSet", "fairlead-attribution")["spec"]["template"]["spec"]
    assert mounts(pod, "attribution")["/host/debug"] == "ro /sys/kernel/debug"
    assert "--debugfs=/host/debug" in containers(pod)["attribution"]["args"]


@pytest.mark.parametrize("values", [{"attribution.enabled": False}, {"userNamespaces": True}])
def test_without_attribution_the_agent_asks_nothing(values: Values, chart: Chart) -> None:
    documents = chart.render(values)
    pod = one(documents, "DaemonSet")["spec"]["template"]["spec"]
    assert not [word for word in containers(pod)["agent"]["args"] if word.startswith("--attribution")]
    assert "/var/log/containers" not in mounts(pod, "agent")
    assert not [document for document in documents if document["kind"] == "NetworkPolicy"]


def test_the_limiter_is_a_pod_of_its_own_with_the_gpus_and_nothing_else(chart: Chart) -> None:
    documents = chart.render({"limiter": {"enabled": True, "nodeSelector": {"gpu": "yes"}}})
    daemonset = one(documents, "DaemonSet", "fairlead-limiter")["spec"]
    assert daemonset["updateStrategy"] == {"type": "OnDelete"}
    pod = daemonset["template"]["spec"]
    assert not {"hostPID", "hostIPC", "serviceAccountName"} & pod.keys()
    assert pod["automountServiceAccountToken"] is False
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "gpu": "yes"}
    (container,) = containers(pod).values()
    assert container["securityContext"]["runAsUser"] == 0
    assert mounts(pod, "limiter") == {"/run/fairlead-mps": "rw /run/fairlead-mps"}
    assert "ports" not in container
    policy = one(documents, "NetworkPolicy", "fairlead-limiter")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & policy.keys(), "a rule would allow something"
    agent = one(documents, "DaemonSet", "fairlead-agent")["spec"]["template"]["spec"]
    assert mounts(agent, "agent")["/run/fairlead-mps"] == "ro /run/fairlead-mps"
    assert "/run/fairlead-mps" not in mounts(agent, "warden")
    assert "--limiter=/run/fairlead-mps" in containers(agent)["agent"]["args"]


@pytest.mark.parametrize(
    "values", [{}, {"limiter.enabled": True, "publish.devicePlugin": False, "publish.claims": False}]
)
def test_without_a_limiter_there_is_none_of_it(values: Values, chart: Chart) -> None:
    documents = chart.render(values)
    assert "fairlead-mps" not in json.dumps(documents)
    assert "limiter" not in {document["metadata"]["name"].removeprefix("fairlead-") for document in documents}


def test_a_replayed_machine_is_mounted_instead_of_the_node(chart: Chart) -> None:
    root = "/opt/machines/jetson-nano"
    pod = one(chart.render({"replay.root": root}), "DaemonSet", "fairlead-agent")["spec"]["template"]["spec"]
    nodes = {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    kubelet = "/var/lib/kubelet"
    own = {f"{kubelet}/plugins/fairlead.dev", f"{kubelet}/plugins_registry/fairlead.dev"}
    attribution = {"/run/fairlead-attribution", "/var/log/containers"}
    assert nodes == {root, "/var/run/cdi", f"{kubelet}/pod-resources", *own, *attribution}
    assert mounts(pod, "agent")["/host"] == mounts(pod, "warden")[root] == f"ro {root}"
    assert {"--root=/host", f"--device-root={root}"} <= set(containers(pod)["agent"]["args"])


def test_a_user_namespace_has_no_mount_that_cannot_be_id_mapped(chart: Chart) -> None:
    pod = one(chart.render({"userNamespaces": True}), "DaemonSet", "fairlead-agent")["spec"]["template"][
        "spec"
    ]
    assert pod["hostUsers"] is False
    nodes = {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    assert not {path for path in nodes if path.startswith(("/sys", "/proc", "/dev", "/etc"))}
    assert containers(pod).keys() == {"agent", "warden"}


def test_only_the_agent_has_the_token(documents: list[Document]) -> None:
    daemons = one(documents, "DaemonSet", "fairlead-agent")["spec"]["template"]["spec"]
    holders = [name for name in containers(daemons) if "ro projected" in mounts(daemons, name).values()]
    publishes = any(word.startswith("--publish=") for word in containers(daemons)["agent"]["args"])
    assert holders == (["agent"] if publishes else [])


def test_mounts_and_volumes_match(documents: list[Document]) -> None:
    for pod in pods(documents):
        volumes = [volume["name"] for volume in pod["volumes"]]
        mounted = [mount for container in containers(pod).values() for mount in container["volumeMounts"]]
        assert len(set(volumes)) == len(volumes)
        assert {mount["name"] for mount in mounted} == set(volumes)
        for container in containers(pod).values():
            paths = [mount["mountPath"] for mount in container["volumeMounts"]]
            assert len(set(paths)) == len(paths)


def test_selectors_find_the_pods(documents: list[Document]) -> None:
    running = [
        document["spec"]["template"]["metadata"]["labels"]
        for document in documents
        if document["kind"] in RUNNING
    ]
    for selector in _selectors(documents):
        assert len([labels for labels in running if selector.items() <= labels.items()]) == 1
        assert "app.kubernetes.io/component" in selector, "otherwise it would match the cleanup's pod"


def _selectors(documents: list[Document]) -> Iterator[dict[str, str]]:
    for document in documents:
        # Of pods that the operator makes.
        if document["metadata"]["name"] in ("fairlead-pipelines", "fairlead-stores"):
            continue
        if document["kind"] == "Service":
            yield document["spec"]["selector"]
        elif document["kind"] == "NetworkPolicy":
            yield document["spec"]["podSelector"]["matchLabels"]
        elif document["kind"] in ("DaemonSet", "Deployment", "PodMonitor", "PodDisruptionBudget"):
            yield document["spec"]["selector"]["matchLabels"]


def test_names_are_unique_and_all_are_labelled(documents: list[Document]) -> None:
    names = [(document["kind"], document["metadata"]["name"]) for document in documents]
    assert len(set(names)) == len(names)
    for document in documents:
        assert document["metadata"]["labels"]["app.kubernetes.io/part-of"] == "fairlead"


def test_the_program_accepts_every_argument(documents: list[Document]) -> None:
    for pod in pods(documents):
        for container in containers(pod).values():
            build_parser().parse_args(container["args"])


@pytest.mark.parametrize(
    ("values", "flags"),
    [({"publish.claims": False}, ()), ({}, ("--kube-version=1.33.0",))],
    ids=["disabled", "unknown to the server"],
)
def test_claims_are_left_out(values: Values, flags: tuple[str, ...], chart: Chart) -> None:
    documents = chart.render(values, *flags)
    agent = containers(one(documents, "DaemonSet", "fairlead-agent")["spec"]["template"]["spec"])["agent"]
    assert "--publish=labels,plugin" in agent["args"]
    assert not [
        document
        for document in documents
        if "resource.k8s.io" in json.dumps(document) and not _is_hook(document)
    ]


def _is_hook(document: Document) -> bool:
    return "helm.sh/hook" in document["metadata"].get("annotations", {})


def test_there_is_a_class_for_every_kind_of_accelerator(chart: Chart) -> None:
    classes = {
        document["metadata"]["name"] for document in chart.render({}) if document["kind"] == "DeviceClass"
    }
    assert classes == {"fairlead.dev", *(f"{kind}.fairlead.dev" for kind in KINDS if kind != "cpu")}


def test_probes_follow_the_scheme(chart: Chart) -> None:
    for values, scheme in (({}, None), (OPTIONS["tls and token"], "HTTPS")):
        agent = containers(
            one(chart.render(values), "DaemonSet", "fairlead-agent")["spec"]["template"]["spec"]
        )["agent"]
        probes = [agent[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness")]
        assert [probe["path"] for probe in probes] == ["/healthz", "/readyz"]
        assert {probe.get("scheme") for probe in probes} == {scheme}


def test_monitoring_renders_rules_dashboard_and_pod_monitor(chart: Chart) -> None:
    documents = chart.render(OPTIONS["monitoring"])
    rules = [document for document in documents if document["kind"] == "PrometheusRule"]
    assert {rule["metadata"]["name"] for rule in rules} == {
        "fairlead-alerts",
        "fairlead-pipelines",
        "fairlead-rules",
        "fairlead-scheduler",
    }
    assert all(rule["spec"]["groups"] for rule in rules)
    dashboard = one(documents, "ConfigMap")
    assert json.loads(dashboard["data"]["fairlead.json"])["panels"]
    endpoint = one(documents, "PodMonitor")["spec"]["podMetricsEndpoints"][0]
    assert {rule["targetLabel"] for rule in endpoint["relabelings"]} == {"instance", "node"}
    assert (endpoint["scheme"], endpoint["authorization"]["credentials"]["name"]) == (
        "https",
        "fairlead-token",
    )
