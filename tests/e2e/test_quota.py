"""The quota of the installation page forbids critical pods in a tenant's namespace."""

import re
from pathlib import Path

import pytest
import yaml

from fairlead.errors import ClusterError
from tests.e2e.api import CORE, wait_for
from tests.e2e.pods import Pods

PAGE = Path(__file__).parents[2] / "docs/how-to/install.md"


def test_the_quota_rejects_critical_pods_in_a_tenants_namespace(pods: Pods) -> None:
    (text,) = re.findall(
        r"```yaml\n(apiVersion: v1\nkind: ResourceQuota\n.*?)```", PAGE.read_text(), re.DOTALL
    )
    path = f"{CORE}/namespaces/{pods.namespace}"
    pods.api.create(f"{path}/resourcequotas", [yaml.safe_load(text)])
    quota = f"{path}/resourcequotas/no-critical-pods"
    wait_for("the quota to count", lambda: pods.api.request("GET", quota)["status"].get("hard"), pods.explain)
    for name in ("system-node-critical", "system-cluster-critical"):
        critical = pods.manifest("critical", {}, scheduler="none")
        critical["spec"]["priorityClassName"] = name
        with pytest.raises(ClusterError, match="exceeded quota: no-critical-pods"):
            pods.make([critical])
    pods.make([pods.manifest("plain", {}, scheduler="none")])
