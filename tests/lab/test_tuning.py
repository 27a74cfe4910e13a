"""The settings in which a lab differs from stock: parsed strictly, and kept through a restart."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.errors import LabError
from fairlead.lab.control import tuning
from fairlead.lab.control.tuning import LabTuning
from fairlead.lab.run.home import LabHome
from fairlead.lab.run.state import LabProfile
from fairlead.lab.run.up import LabSpec, check_spec
from tests.lab.command_line import LabCommandLine, write_fake_programs

CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "scheduler.yaml"
    path.write_text(text)
    return path


def rendered(tmp_path: Path, text: str) -> Any:
    return yaml.safe_load(
        tuning.render_scheduler_config(tuning.load_scheduler_config(write(tmp_path, text)), Path("/k"))
    )


def test_switches_are_parsed() -> None:
    assert tuning.parse_feature_gates("GenericWorkload=true, X1=false") == "GenericWorkload=true,X1=false"
    switches = "api/alpha=true,v1=true,resource.k8s.io/v1beta2=true,apps/v1/deployments=false"
    assert tuning.parse_runtime_config(switches) == switches
    tuned = LabTuning("A=true", "api/all=true")
    assert tuned.common_arguments() == ["--feature-gates=A=true"]
    assert tuned.api_server_arguments() == ["--feature-gates=A=true", "--runtime-config=api/all=true"]
    assert LabTuning().api_server_arguments() == []


@pytest.mark.parametrize("text", ["", "A", "A=yes", "a=true", "A=true,", "A=true B=false", "--x=true"])
def test_an_invalid_feature_gate_is_rejected(text: str) -> None:
    with pytest.raises(LabError, match="is not NAME=true or NAME=false") as caught:
        tuning.parse_feature_gates(text)
    assert "--feature-gates" in str(caught.value)


@pytest.mark.parametrize("text", ["", "scheduling.k8s.io=true", "x/v1", "X/v1=true", "../v1=true"])
def test_an_invalid_api_is_rejected(text: str) -> None:
    with pytest.raises(LabError, match="--runtime-config"):
        tuning.parse_runtime_config(text)


def test_the_lab_completes_the_users_configuration(tmp_path: Path) -> None:
    stock = yaml.safe_load(tuning.render_scheduler_config(None, Path("/k")))
    assert stock["clientConnection"] == {"kubeconfig": "/k", "qps": 5000, "burst": 5000}
    assert stock["leaderElection"] == {"leaderElect": False}
    assert rendered(tmp_path, CONFIG) == stock
    whole = rendered(
        tmp_path,
        f"{CONFIG}clientConnection: {{qps: 7, kubeconfig: }}\nleaderElection: {{leaderElect: true}}\n"
        "extenders: [{urlPrefix: http://x}]\n",
    )
    assert whole["clientConnection"] == {"kubeconfig": "/k", "qps": 7, "burst": 5000}
    assert whole["leaderElection"] == {"leaderElect": True}
    assert whole["extenders"] == [{"urlPrefix": "http://x"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a KubeSchedulerConfiguration"),
        ("[1]", "not a KubeSchedulerConfiguration"),
        ("kind: KubeSchedulerConfiguration", "apiVersion None"),
        ("kind: KubeSchedulerConfiguration\napiVersion: v1", "apiVersion 'v1'"),
        (f"{CONFIG}clientConnection: 7", "clientConnection is not a mapping"),
        ("a: [", "scheduler.yaml: "),
        ("\0\1", "scheduler.yaml: "),
        (f"{CONFIG}#{'x' * (1 << 20)}", "not a KubeSchedulerConfiguration"),
    ],
)
def test_a_file_that_is_not_a_scheduler_configuration_is_rejected(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(LabError, match=re.escape(message)):
        tuning.load_scheduler_config(write(tmp_path, text))


@pytest.mark.parametrize("name", ["none.yaml", "."])
def test_an_unreadable_file_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(LabError, match=r"No such file|Is a directory"):
        tuning.load_scheduler_config(tmp_path / name)


def test_a_lab_without_a_scheduler_rejects_a_scheduler_configuration(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="the profile api has no scheduler"):
        check_spec(LabHome(tmp_path), LabSpec(LabProfile.API, tuning=LabTuning(scheduler={})))


def test_the_api_server_has_its_switches_also_after_a_restart(tmp_path: Path) -> None:
    lab_cli = LabCommandLine(tmp_path / "state", write_fake_programs(tmp_path / "assets"))
    switches = (
        "--feature-gates",
        "GenericWorkload=true",
        "--runtime-config",
        "scheduling.k8s.io/v1beta1=true",
    )
    try:
        programs = lab_cli.json("up", "--profile", "api", *switches)["programs"]
        again = lab_cli.json("restart", "kube-apiserver")
        words = Path(f"/proc/{again['started_pid']}/cmdline").read_bytes().split(b"\0")
        assert b"--feature-gates=GenericWorkload=true" in words
        assert b"--runtime-config=scheduling.k8s.io/v1beta1=true" in words
        etcd = Path(f"/proc/{programs[0]['pid']}/cmdline").read_bytes()
        assert b"feature-gates" not in etcd
    finally:
        lab_cli("down")
    assert lab_cli("up", "--feature-gates", "x").returncode == 2
