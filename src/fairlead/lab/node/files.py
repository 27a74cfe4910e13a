"""The configuration files of a real node, and the manifests of the cluster's DNS server.

Paths are as the node sees them: its /run, /var/lib and /var/log are its own (see namespaces.py).
"""

import json
from pathlib import Path
from typing import Final

from fairlead.lab.build.images import COREDNS, PAUSE
from fairlead.lab.node import namespaces
from fairlead.lab.node.layout import PLAIN, NodeLayout

DNS_ADDRESS: Final = "10.96.0.10"
_OVERLAYS: Final = frozenset({"overlay", "aufs"})
"""File systems that cannot be the upper layer of an overlay."""


def snapshotter(folder: Path) -> str:
    """Return containerd's snapshotter for a lab whose files are in `folder`."""
    return "native" if namespaces.file_system(folder) in _OVERLAYS else "overlayfs"


def containerd(runc: Path, plugins: Path, wiring: Path, snapshotter: str, layout: NodeLayout = PLAIN) -> str:
    """Return containerd's configuration; `restrict_oom_score_adj` lets it run without CAP_SYS_RESOURCE."""
    return f"""\
version = 4
root = "{layout.containerd}"
state = "{layout.state}"
[plugins."io.containerd.server.v1.grpc"]
  address = "{layout.socket}"
[plugins."io.containerd.server.v1.ttrpc"]
  address = "{layout.socket}.ttrpc"
[plugins."io.containerd.nri.v1.nri"]
  disable = true
[plugins."io.containerd.internal.v1.opt"]
  path = "{layout.containerd}/opt"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "{snapshotter}"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  cdi_spec_dirs = ["/run/cdi"]
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
      BinaryName = "{runc}"
      Root = "/run/runc"
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{plugins}"]
    conf_dir = "{wiring}"
"""


def cni(pods: str) -> str:
    """Return the CNI configuration: a bridge of the node's own, reached by routes, without NAT."""
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": pods}]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "0.4.0", "name": "lab", "plugins": [bridge, ports]})


def kubelet(keys: Path, folder: Path, node: str, cgroup: str, layout: NodeLayout = PLAIN) -> str:
    """Return the kubelet's configuration; the disk is the user's, so its use never evicts pods of a lab.

    The kubelet reports a changed status within a second, not within ten: tests wait for that. It reports an
    unchanged status every five minutes, the default: otherwise every watcher of the node would get an update
    a second.
    """
    return f"""\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://{layout.socket}
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /{cgroup}
failSwapOn: false
nodeStatusUpdateFrequency: 1s
syncFrequency: 10s
nodeStatusReportFrequency: 5m
authentication:
  anonymous: {{enabled: false}}
  webhook: {{enabled: true}}
  x509: {{clientCAFile: "{keys / "ca.crt"}"}}
authorization: {{mode: Webhook}}
tlsCertFile: "{keys / f"kubelet-{node}-server.crt"}"
tlsPrivateKeyFile: "{keys / f"kubelet-{node}-server.key"}"
clusterDNS: ["{DNS_ADDRESS}"]
clusterDomain: cluster.local
resolvConf: "{folder / "resolv.conf"}"
evictionHard: {{memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%"}}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
volumePluginDir: {layout.kubelet}/volume-plugins
"""


RESOLV_CONF: Final = "# A lab resolves no names but its own.\n"
_LABEL: Final = {"k8s-app": "kube-dns"}
_COREFILE: Final = """\
.:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa {
        pods insecure
        ttl 5
    }
    cache 5
}
"""


def dns_server() -> list[tuple[str, dict[str, object]]]:
    """Return the objects of CoreDNS, the cluster's DNS server, each with the path that creates it."""
    namespaced = {"name": "coredns", "namespace": "kube-system"}
    cluster_wide = {"name": "system:coredns"}
    rbac = "rbac.authorization.k8s.io"
    core, roles = "/api/v1/namespaces/kube-system", f"/apis/{rbac}/v1"
    rules = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "system:coredns"}
    account = {"kind": "ServiceAccount", **namespaced}
    ports = [{"name": name, "port": 53, "protocol": name.upper()} for name in ("udp", "tcp")]
    service = {"clusterIP": DNS_ADDRESS, "selector": _LABEL, "ports": ports}
    return [
        (f"{core}/serviceaccounts", {"metadata": namespaced}),
        (f"{roles}/clusterroles", {"metadata": cluster_wide, "rules": rules}),
        (f"{roles}/clusterrolebindings", {"metadata": cluster_wide, "roleRef": role, "subjects": [account]}),
        (f"{core}/configmaps", {"metadata": namespaced, "data": {"Corefile": _COREFILE}}),
        ("/apis/apps/v1/namespaces/kube-system/deployments", {"metadata": namespaced, "spec": _deployment()}),
        (f"{core}/services", {"metadata": {**namespaced, "name": "kube-dns"}, "spec": service}),
    ]


def _deployment() -> dict[str, object]:
    """Return the Deployment of CoreDNS: no root, no capability, a read-only root file system."""
    container = {
        "name": "coredns",
        "image": COREDNS,
        "imagePullPolicy": "Never",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns"}],
    }
    # Nodes that kwok simulates run nothing.
    term = {"matchExpressions": [{"key": "type", "operator": "NotIn", "values": ["kwok"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod = {
        "serviceAccountName": "coredns",
        "affinity": {"nodeAffinity": required},
        "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10053,
            "runAsGroup": 10053,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }
    return {
        "replicas": 1,
        "selector": {"matchLabels": _LABEL},
        "template": {"metadata": {"labels": _LABEL}, "spec": pod},
    }
