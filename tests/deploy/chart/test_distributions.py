"""The chart's values for a distribution match the doctor's paths for it."""

import pytest

from deploy import render
from fairlead.doctor.distributions import DEFAULT_KUBELET_DIR, DISTRIBUTIONS, KubernetesDistribution
from tests.deploy.chart.charts import Chart, containers, one

OWN = [distribution for distribution in DISTRIBUTIONS if distribution.name not in ("kubeadm", "rke2")]


@pytest.mark.parametrize("distribution", OWN, ids=lambda distribution: distribution.name)
def test_values_name_the_kubelets_folder(chart: Chart, distribution: KubernetesDistribution) -> None:
    file = render.CHART / f"values-{distribution.name}.yaml"
    pod = one(chart.render({}, f"--values={file}"), "DaemonSet", "fairlead-agent")["spec"]["template"]["spec"]
    assert f"--kubelet-dir={distribution.kubelet[0]}" in containers(pod)["agent"]["args"]
    paths = [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume]
    assert f"{distribution.kubelet[0]}/pod-resources" in paths
    if distribution.kubelet[0] != DEFAULT_KUBELET_DIR:
        assert not [path for path in paths if path.startswith(f"{DEFAULT_KUBELET_DIR}/")]


def test_every_file_of_values_belongs_to_a_distribution() -> None:
    files = {path.name for path in render.CHART.glob("values-*.yaml")}
    assert files == {f"values-{distribution.name}.yaml" for distribution in OWN}
