"""Helm: it talks only to the lab, ignores the user's Helm settings, and writes nothing to the home folder."""

import subprocess
from pathlib import Path

from fairlead.lab.control import helm
from fairlead.lab.run.state import Lab, LabProfile
from tests.labs import RealNode

CHART = {
    "Chart.yaml": "apiVersion: v2\nname: tiny\nversion: 0.1.0\n",
    "templates/note.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n"
    "data: {word: {{ .Values.word | quote }}}\n",
    "values.yaml": "word: none\n",
}


def test_helm_uses_the_lab_and_ignores_the_users_settings(tmp_path: Path) -> None:
    users = {"PATH": "/bin", "HELM_NAMESPACE": "prod", "HELM_KUBECONTEXT": "prod", "KUBECONFIG": "/theirs"}
    variables = helm.environment(Lab("a", LabProfile.API, tmp_path, 0.0), users)
    assert variables["PATH"] == "/bin"
    assert variables["KUBECONFIG"] == str(tmp_path / "kubeconfig")
    homes = {name: value for name, value in variables.items() if name.startswith("HELM_")}
    assert homes == {
        f"HELM_{kind.upper()}_HOME": f"{tmp_path}/helm/{kind}" for kind in ("cache", "config", "data")
    }


def test_a_chart_is_installed_and_removed(real_node: RealNode, node_namespace: str, tmp_path: Path) -> None:
    for name, text in CHART.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def call(*arguments: str) -> str:
        argv = [str(real_node.helm), "-n", node_namespace, *arguments]
        done = subprocess.run(argv, env=real_node.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert call("version", "--template", "{{.Version}}").startswith("v4.")
    call("install", "one", str(tmp_path), "--set", "word=hello")
    word = ("-n", node_namespace, "get", "configmap", "one", "-o", "jsonpath={.data.word}")
    assert real_node.kubectl(*word) == "hello"
    assert "one" in call("list", "-q")
    call("uninstall", "one")
    assert "one" not in real_node.kubectl("-n", node_namespace, "get", "configmaps", "-o", "name")
