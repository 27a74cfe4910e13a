"""The quota by priority class of the installation page keeps critical pods out of a tenant's namespace."""

import re
from pathlib import Path

import pytest
import yaml

from fairlead.errors import ClusterError
from tests.e2e.api import CORE, wait_for
from tests.e2e.pods import Pods

PAGE = Path(__file__).parents[2] / "docs/how-to/install.md"


def test_no_critical_pod_comes_into_a_tenants_namespace(pods: Pods) -> None:
    (text,) = re.findall(
        r"```yaml\n(apiVersion: v1\nkind: ResourceQuota\n.*?)```", PAGE.read_text(), re.DOTALL
    )
    place = f"{CORE}/namespaces/{pods.namespace}"
    pods.api.create(f"{place}/resourcequotas", [yaml.safe_load(text)])
    quota = f"{place}/resourcequotas/no-critical-pods"
    wait_for("the quota to count", lambda: pods.api.ask("GET", quota)["status"].get("hard"), pods.explain)
    for name in ("system-node-critical", "system-cluster-critical"):
        critical = pods.manifest("critical", {}, scheduler="nobody")
        critical["spec"]["priorityClassName"] = name
        with pytest.raises(ClusterError, match="exceeded quota: no-critical-pods"):
            pods.make([critical])
    pods.make([pods.manifest("plain", {}, scheduler="nobody")])
