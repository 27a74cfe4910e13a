"""Inside a real node: its own hostname and files, and pods with user namespaces."""

import json

import pytest

from fairlead.lab.build.prerequisites import RUNC
from fairlead.lab.build.programs import are_built
from tests.labs import RealNode


def test_a_node_has_its_own_hostname_and_files_and_sees_those_of_the_host(real_node: RealNode) -> None:
    assert real_node.run("hostname").stdout == "node-1\n"
    assert "10.89.0.1 node-1" in real_node.run("cat", "/etc/hosts").stdout
    (real_node.folder / "note").write_text("from the host")
    assert real_node.run("cat", str(real_node.folder / "note")).stdout == "from the host"
    assert (real_node.kubelet / "plugins_registry").is_dir()
    assert real_node.run("ls", "/var/lib/kubelet/nowhere").returncode


def test_a_pod_can_have_a_user_namespace(real_node: RealNode, node_namespace: str) -> None:
    if not are_built([RUNC]):
        pytest.skip("without a C compiler runc is Debian's, which is too old for user namespaces")
    spec = json.dumps({"spec": {"hostUsers": False}})
    pod = ["run", "p", "--image=localhost/busybox:1", "--image-pull-policy=Never", f"--overrides={spec}"]
    real_node.kubectl("-n", node_namespace, *pod, "--", "sleep", "600")
    real_node.kubectl("-n", node_namespace, "wait", "pod/p", "--for=condition=Ready", "--timeout=300s")
    users = real_node.kubectl("-n", node_namespace, "exec", "p", "--", "cat", "/proc/self/uid_map").split()
    assert (users[0], users[2]) == ("0", "65536")
    assert int(users[1]) >= 65536
