"""The KubeSchedulerConfiguration with which a stock kube-scheduler calls the extender."""

import re
from typing import Final

from fairlead import keys
from fairlead.errors import SettingsError

MANAGED: Final = (keys.GPU_MEM, keys.GPU_MEM_GIB)
"""kube-scheduler calls the extender for pods that request one of these; others never depend on it."""
_URL: Final = re.compile(r"(https?)://[A-Za-z0-9.\-\[\]:]+(/[^\s?#\"\\]*)?")


def configuration(url: str) -> str:
    """Return the text of the file for an extender at this address."""
    match = _URL.fullmatch(url)
    if match is None:
        raise SettingsError(
            f"{url!r} is not the address of an extender", "write it like http://127.0.0.1:19811"
        )
    managed = "\n".join(
        f"      - name: {name}\n        ignoredByScheduler: false  # its sum on a node is still counted"
        for name in MANAGED
    )
    return f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
extenders:
  - urlPrefix: "{url.rstrip("/")}"
    filterVerb: filter
    prioritizeVerb: prioritize
    weight: 10  # one step in the policy's order weighs as much as a whole score of kube-scheduler's own
    nodeCacheCapable: true
    ignorable: false  # true: while the extender is unavailable, pods are placed by the node's sum alone
    httpTimeout: 3s
    enableHTTPS: {"true" if match[1] == "https" else "false"}
    managedResources:
{managed}
"""
