"""Valid and invalid kubeconfigs: each mistake gives one line that says what, where and what to do."""

import base64
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cluster.config import certificate
from fairlead.cluster.config.kubeconfig import in_cluster, load
from fairlead.cluster.config.types import ClusterConfig, Impersonation
from fairlead.compat.times import UTC
from fairlead.errors import KubeconfigError
from tests.cluster.loopback import Authority

AUTHORITY = Authority()
JANE = AUTHORITY.leaf("jane")
OLD = AUTHORITY.leaf("old", until=datetime(2024, 3, 1, 12, 30, tzinfo=UTC))
FAR = AUTHORITY.leaf("far", until=datetime(2061, 3, 1, tzinfo=UTC))
API = "client.authentication.k8s.io"
Document = dict[str, Any]


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def document(user: Document | None = None, cluster: Document | None = None) -> Document:
    """Return a kubeconfig of one context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "home", "user": "jane", "namespace": "lab"}}],
        "clusters": [{"name": "home", "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "jane", "user": {"token": "secret"} if user is None else user}],
    }


def write(folder: Path, content: Document | str, name: str = "config") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def loaded(folder: Path, content: Document | str, context: str | None = None) -> ClusterConfig:
    return load(write(folder, content), context, env={})


def test_a_context_is_read(tmp_path: Path) -> None:
    entry = {
        "certificate-authority-data": b64(AUTHORITY.pem),
        "tls-server-name": "api",
        "proxy-url": "http://proxy:3128",
    }
    config = loaded(tmp_path, document(cluster=entry))
    assert (config.server, config.namespace, config.user) == ("https://10.0.0.1:6443", "lab", "jane")
    assert (config.ca, config.server_name, config.proxy) == (AUTHORITY.pem, "api", "http://proxy:3128")
    assert config.login.token == "secret"
    assert config.display_name == f"context 'here' of {tmp_path}/config"
    assert "secret" not in repr(config), "the representation must not contain a secret"


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/jane.crt").write_bytes(JANE.certificate)
    (tmp_path / "keys/jane.key").write_bytes(JANE.key)
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pem)
    user = {"client-certificate": "keys/jane.crt", "client-key": "keys/jane.key", "tokenFile": "token"}
    config = loaded(tmp_path, document(user, {"certificate-authority": "ca.crt"}))
    assert (config.login.certificate, config.login.key, config.ca) == (
        JANE.certificate,
        JANE.key,
        AUTHORITY.pem,
    )
    assert config.login.token_file == str(tmp_path / "token")


def test_several_files_are_merged(tmp_path: Path) -> None:
    first = document({"token": "first"})
    first["contexts"][0]["context"]["cluster"] = "second"
    del first["current-context"]
    second = document({"token": "second"}, {"certificate-authority": "ca.crt"})
    second["clusters"][0]["name"] = "second"
    second["contexts"].append({"name": "other", "context": {"cluster": "second"}})
    (tmp_path / "b").mkdir()
    (tmp_path / "b/ca.crt").write_bytes(AUTHORITY.pem)
    paths = [
        write(tmp_path, first, "a/config"),
        str(tmp_path / "absent"),
        write(tmp_path, second, "b/config"),
    ]
    env = {"KUBECONFIG": os.pathsep.join(paths)}
    config = load(env=env)
    assert config.login.token == "first", "the first file that defines a user wins"
    assert config.ca == AUTHORITY.pem, "paths are relative to their own file"
    assert config.context == "here"
    other = load(context="other", env=env)
    assert (other.user, other.login.token, other.namespace) == ("", "", "default")


def test_the_default_paths(tmp_path: Path) -> None:
    write(tmp_path, document(), ".kube/config")
    pod = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
    assert load(env={"HOME": str(tmp_path), **pod}).context == "here"
    chosen = write(tmp_path, document({"token": "chosen"}), "chosen")
    assert load(env={"HOME": str(tmp_path), "KUBECONFIG": chosen}).login.token == "chosen"
    with pytest.raises(KubeconfigError, match="no cluster is configured"):
        load(env={"HOME": str(tmp_path / "empty")})


@pytest.mark.parametrize(
    ("host", "server"), [("10.96.0.1", "https://10.96.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_the_cluster_of_a_pod(tmp_path: Path, host: str, server: str) -> None:
    env = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(KubeconfigError, match="no service account is mounted"):
        load(env=env, mounted=str(tmp_path))
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pem)
    (tmp_path / "namespace").write_text("edge\n")
    config = load(env=env, mounted=str(tmp_path))
    assert (config.server, config.namespace, config.ca) == (server, "edge", AUTHORITY.pem)
    assert config.login.token_file == f"{tmp_path}/token"
    with pytest.raises(KubeconfigError, match="not running in a pod"):
        in_cluster({}, str(tmp_path))


def test_an_impersonated_user_is_read(tmp_path: Path) -> None:
    user = {"token": "t", "as": "bob", "as-groups": ["dev", "ops"], "as-user-extra": {"reason": ["test"]}}
    assert loaded(tmp_path, document(user)).impersonate == Impersonation(
        "bob", "", ("dev", "ops"), {"reason": ("test",)}
    )


def test_an_exec_plugin_is_read(tmp_path: Path) -> None:
    entry = {
        "apiVersion": f"{API}/v1",
        "command": "./bin/login",
        "args": ["token"],
        "env": [{"name": "A", "value": "b"}],
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": True,
    }
    cluster = {"extensions": [{"name": f"{API}/exec", "extension": {"audience": "x"}}]}
    plugin = loaded(tmp_path, document({"exec": entry}, cluster)).login.plugin
    assert plugin is not None
    assert plugin.command == f"{tmp_path}/./bin/login", "a path with a slash is relative to the kubeconfig"
    assert (plugin.args, plugin.env) == (("token",), (("A", "b"),))
    assert (plugin.provide_cluster_info, plugin.cluster_config) == (True, {"audience": "x"})


def changed(path: str, value: object) -> Document:
    """Return a valid kubeconfig with one field changed: `contexts.0.context.user`."""
    whole: Any = document()
    *steps, last = path.split(".")
    place = whole
    for step in steps:
        place = place[int(step)] if step.isdigit() else place[step]
    place[last] = value
    result: Document = whole
    return result


EXEC = {"apiVersion": f"{API}/v1", "command": "login"}
MISTAKES: list[tuple[str, Document | str, str, str]] = [
    ("not yaml", "clusters: [", "not YAML: .* in line \\d, column", "correct that line"),
    ("not a mapping", "just words", "not a kubeconfig: it has no clusters", "fairlead lab up"),
    ("empty", "", "not a kubeconfig", "fairlead lab up"),
    (
        "wrong type",
        changed("clusters", "x"),
        r"Expected `array`, got `str` - at `\$.clusters`",
        "correct that",
    ),
    ("no context chosen", changed("current-context", ""), "no context is chosen", "--context: here"),
    ("unknown context", changed("current-context", "there"), "no context 'there'", "known: here"),
    (
        "unknown cluster",
        changed("contexts.0.context.cluster", "away"),
        "context 'here' names no known cluster .*'away'",
        "known: home",
    ),
    (
        "unknown user",
        changed("contexts.0.context.user", "joe"),
        "context 'here' names no known user .*'joe'",
        "known: jane",
    ),
    ("no server", changed("clusters.0.cluster", {}), "cluster 'home': server '' is not a URL", "https://"),
    ("bare server", changed("clusters.0.cluster.server", "10.0.0.1:6443"), "is not a URL", "https://"),
    ("password in it", changed("clusters.0.cluster.server", "https://a:b@c"), "is not a URL", "https://"),
    ("bad port", changed("clusters.0.cluster.server", "https://a:99999"), "is not a URL", "https://"),
    (
        "bad base64",
        document({"client-key-data": "=x="}),
        "user 'jane': client-key-data is not base64",
        "copy",
    ),
    (
        "bad authority base64",
        document(cluster={"certificate-authority-data": "%"}),
        "cluster 'home': certificate-authority-data is not base64",
        "copy",
    ),
    (
        "missing authority",
        document(cluster={"certificate-authority": "gone.crt"}),
        "certificate-authority .*/gone.crt cannot be read: No such file",
        "certificate-authority-data",
    ),
    (
        "missing certificate",
        document({"client-certificate": "gone.crt", "client-key": "gone.key"}),
        "user 'jane': client-certificate .*/gone.crt cannot be read",
        "correct the path",
    ),
    (
        "certificate without key",
        document({"client-certificate-data": b64(JANE.certificate)}),
        "has a client-certificate but no client-key",
        "client-key",
    ),
    (
        "expired",
        document({"client-certificate-data": b64(OLD.certificate), "client-key-data": b64(OLD.key)}),
        "user 'jane': the client certificate expired on 2024-03-01 12:30 UTC",
        "get a new one",
    ),
    (
        "no certificate",
        document({"client-certificate-data": b64(b"hello"), "client-key-data": b64(OLD.key)}),
        "holds no PEM certificate",
        "get the user a new one",
    ),
    ("password", document({"username": "jane", "password": "x"}), "logs in with a password", "certificate"),
    ("auth provider", document({"auth-provider": {"name": "gcp"}}), "uses an auth-provider", "exec plugin"),
    ("number for a token", document({"token": 12345}), "Expected `str`, got `int`.*users.*token", "correct"),
    ("old exec", document({"exec": {**EXEC, "apiVersion": f"{API}/v1alpha1"}}), "is not known", "v1beta1"),
    (
        "exec of nothing",
        document({"exec": {**EXEC, "command": ""}}),
        "exec has no command",
        "name the plugin",
    ),
    (
        "asking exec",
        document({"exec": {**EXEC, "interactiveMode": "Always"}}),
        "needs a terminal",
        "IfAvailable",
    ),
]


@pytest.mark.parametrize(
    ("content", "says", "hint"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES]
)
def test_mistakes(tmp_path: Path, content: Document | str, says: str, hint: str) -> None:
    with pytest.raises(KubeconfigError, match=says) as caught:
        loaded(tmp_path, content)
    message = str(caught.value)
    assert "\n" not in message
    assert str(tmp_path) in message, "the message names the file"
    assert hint in caught.value.hint, "the hint says what to do"
    assert caught.value.exit_code == 2


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    for env, path in (({}, absent), ({"KUBECONFIG": absent}, None)):
        with pytest.raises(KubeconfigError, match="absent: the kubeconfig cannot be read: No such file"):
            load(path, env=env)


def test_null_sections_are_empty(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="no context is chosen") as caught:
        loaded(tmp_path, "apiVersion: v1\nkind: Config\nclusters: null\nusers: null\ncontexts: null\n")
    assert "none" in caught.value.hint


def test_the_expiry_of_a_certificate_is_read() -> None:
    assert certificate.expiry(OLD.certificate) == datetime(2024, 3, 1, 12, 30, tzinfo=UTC)
    assert certificate.expiry(FAR.certificate) == datetime(2061, 3, 1, tzinfo=UTC)
    chain = b"# a comment\n" + FAR.certificate + OLD.certificate
    assert certificate.expiry(chain) == datetime(2061, 3, 1, tzinfo=UTC), "the first is the client's own"


@given(st.binary(max_size=60), st.integers(0, 900), st.integers(0, 60))
def test_any_bytes_are_read_without_an_exception(junk: bytes, at: int, length: int) -> None:
    assert certificate.expiry(junk) is None
    der = base64.b64decode(b"".join(OLD.certificate.split(b"\n")[1:-2]))
    hurt = der[:at] + junk + der[at + length :]
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(hurt) + b"-----END CERTIFICATE-----\n"
    certificate.expiry(pem)  # any result, and no exception
