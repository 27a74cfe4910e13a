"""Credentials that change: token files, exec plugins, and servers that reject a credential."""

import asyncio
import json
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from aiohttp import web

from fairlead.cluster.client import Client
from fairlead.cluster.config.auth import EXPIRY_MARGIN, TOKEN_AGE, Credential, make_identity
from fairlead.cluster.config.types import AuthInfo, ClusterConfig, ExecPlugin, Impersonation
from fairlead.cluster.http.transport import ClientEnvironment, Transport
from fairlead.cluster.kinds import NODES
from fairlead.cluster.times import format_time
from fairlead.compat.times import UTC
from fairlead.errors import AccessError, KubeconfigError
from tests.cluster.loopback import serve_responses

V1 = "client.authentication.k8s.io/v1"
PATH = {"PATH": os.environ["PATH"]}


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def config(login: AuthInfo) -> ClusterConfig:
    return ClusterConfig("https://10.0.0.1", source="/home/jane/.kube/config", user="jane", login=login)


def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", Clock()
    path.write_text("one\n")
    identity = make_identity(config(AuthInfo(token_file=str(path))), {}, clock, clock)

    async def token() -> str:
        return (await identity.current()).token

    async def scenario() -> None:
        assert await token() == "one"
        path.write_text("two\n")
        assert await token() == "one", "the file is not read for every request"
        clock.now += TOKEN_AGE
        assert await token() == "two"
        path.write_text("three")
        assert identity.invalidate(Credential("two")), "after a 401 the file is read again"
        assert await token() == "three"
        assert not identity.invalidate(Credential("three")), "the file has no other token"
        assert identity.invalidate(Credential("two")), "that token is not the current one"
        path.unlink()
        clock.now += TOKEN_AGE
        with pytest.raises(KubeconfigError, match=r"token: the token cannot be read: .*No such file"):
            await token()
        path.write_text("\n")
        with pytest.raises(KubeconfigError, match="the token file is empty"):
            await token()

    asyncio.run(scenario())


PROGRAM = """#!{python}
import json, os, sys
with open({count!r}, "a") as runs:
    runs.write("x")
with open({answer!r}) as file:
    text = file.read()
if text.startswith("fail"):
    print("some trace\\n" + text[5:], file=sys.stderr)
    sys.exit(3)
print(text.replace("RUNS", str(os.path.getsize({count!r}))).replace("SEEN", os.environ.get("SEEN", "")))
with open({info!r}, "w") as out:
    out.write(os.environ["KUBERNETES_EXEC_INFO"])
"""


class Program:
    """An exec plugin that prints what the test sets, and counts its runs."""

    def __init__(self, folder: Path) -> None:
        self.count, self.answer, self.info = folder / "count", folder / "answer", folder / "info"
        self.path = folder / "bin" / "login"
        self.path.parent.mkdir()
        names = {name: str(getattr(self, name)) for name in ("count", "answer", "info")}
        self.path.write_text(PROGRAM.format(python=sys.executable, **names))
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    def prints(self, status: Mapping[str, str] | None = None, **other: object) -> None:
        whole = {"apiVersion": V1, "kind": "ExecCredential", "status": status or {"token": "t-RUNS"}, **other}
        self.answer.write_text(json.dumps(whole))

    @property
    def runs(self) -> int:
        return self.count.stat().st_size if self.count.exists() else 0

    @property
    def env(self) -> dict[str, str]:
        return {**PATH, "PATH": f"{self.path.parent}{os.pathsep}{PATH['PATH']}"}


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


PLUGIN = ExecPlugin("login", V1)


def test_a_plugin_runs_once_until_its_credential_expires(program: Program) -> None:
    clock = Clock()
    identity = make_identity(config(AuthInfo(plugin=PLUGIN)), program.env, clock, clock)
    program.prints({"token": "t-RUNS", "expirationTimestamp": format_time(_at(clock.now + 300))})

    async def scenario() -> None:
        tokens = await asyncio.gather(*(identity.current() for _ in range(10)))
        assert {credential.token for credential in tokens} == {"t-1"}, "concurrent callers wait for one run"
        clock.now += 300 - EXPIRY_MARGIN
        assert (await identity.current()).token == "t-2"
        assert identity.invalidate(Credential("t-1")), "an old credential was rejected: the new one stays"
        assert (await identity.current()).token == "t-2"
        assert identity.invalidate(Credential("t-2"))
        assert (await identity.current()).token == "t-3"
        clock.now += 3600
        await identity.current()
        await identity.current()
        assert program.runs == 4, (
            "a credential that has expired on arrival does not run the program for every request"
        )

    asyncio.run(scenario())


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_a_plugin_sees_its_environment(program: Program) -> None:
    program.prints({"clientCertificateData": "CERT SEEN", "clientKeyData": "KEY"})
    plugin = replace(
        PLUGIN, env=(("SEEN", "eyes"),), provide_cluster_info=True, cluster_config={"audience": "a"}
    )
    identity = make_identity(config(AuthInfo(plugin=plugin)), program.env, Clock(), Clock())
    assert asyncio.run(identity.current()) == Credential("", b"CERT eyes", b"KEY")
    info = json.loads(program.info.read_text())
    assert (info["apiVersion"], info["kind"]) == (V1, "ExecCredential")
    assert info["spec"] == {
        "interactive": False,
        "cluster": {"server": "https://10.0.0.1", "config": {"audience": "a"}},
    }


FAULTS = [
    ("junk", "hello", "printed no ExecCredential"),
    ("nothing", "", "printed no ExecCredential"),
    ("a wrong kind", '{"kind": "Pod"}', "printed no ExecCredential"),
    (
        "another version",
        '{"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": {}}',
        "answered in 'client.authentication.k8s.io/v1beta1', not in",
    ),
    (
        "no credential",
        f'{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {{}}}}',
        "printed neither a token nor a certificate",
    ),
    (
        "a strange date",
        f'{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {{"expirationTimestamp": "soon"}}}}',
        "printed no ExecCredential",
    ),
    ("a failure", "fail you are not logged in", r"failed \(3\): you are not logged in"),
]


@pytest.mark.parametrize(("answer", "prints"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_faults_of_plugins(program: Program, answer: str, prints: str) -> None:
    program.answer.write_text(answer)
    identity = make_identity(config(AuthInfo(plugin=PLUGIN)), program.env, Clock(), Clock())
    with pytest.raises(KubeconfigError, match=prints) as caught:
        asyncio.run(identity.current())
    assert str(caught.value).startswith("/home/jane/.kube/config: user 'jane': exec plugin 'login'")
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def test_a_missing_plugin(tmp_path: Path) -> None:
    plugin = replace(PLUGIN, command="kubelogin", install_hint="To install it:\n  brew install kubelogin\n")
    identity = make_identity(config(AuthInfo(plugin=plugin)), {"PATH": str(tmp_path)}, Clock(), Clock())
    with pytest.raises(KubeconfigError, match="'kubelogin' is not installed") as caught:
        asyncio.run(identity.current())
    assert caught.value.hint == "brew install kubelogin"
    broken = tmp_path / "kubelogin"
    broken.write_bytes(b"\x7fELF not really")
    broken.chmod(0o755)
    with pytest.raises(KubeconfigError, match="'kubelogin' cannot be run: Exec format error"):
        asyncio.run(identity.current())


def test_a_rejected_token_is_replaced_during_the_request(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")

    async def serve(request: web.BaseRequest) -> web.Response:
        if request.headers.get("Authorization") != "Bearer new":
            path.write_text("new")  # as the kubelet does, between two reads
            return web.json_response({"reason": "Unauthorized", "code": 401}, status=401)
        return web.json_response({"metadata": {"name": "n1"}})

    async def scenario() -> None:
        async with serve_responses(serve) as seen:
            client_config = replace(seen.config, login=AuthInfo(token_file=str(path)))
            async with Client.connect(client_config) as client:
                assert (await client.get(NODES, "n1")).metadata.name == "n1"
                patched = await client.patch(NODES, "n1", {})
                assert patched.metadata.name == "n1"
            assert len(seen.requests) == 3, "rejected once, then the new token for every further request"

    asyncio.run(scenario())


def test_a_rejected_credential_is_renewed_only_once(program: Program) -> None:
    program.prints()

    async def serve(_: web.BaseRequest) -> web.Response:
        return web.json_response({"reason": "Unauthorized", "code": 401}, status=401)

    async def scenario() -> None:
        async with serve_responses(serve) as seen:
            client_config = replace(seen.config, login=AuthInfo(plugin=PLUGIN))
            async with Transport.open(
                client_config, environment=ClientEnvironment(env=program.env)
            ) as transport:
                client = Client(transport)
                with pytest.raises(
                    AccessError, match="does not accept the credentials of user 'jane'"
                ) as caught:
                    await client.get(NODES, "n1")
            assert (caught.value.exit_code, caught.value.code) == (2, 401)
            assert (len(seen.requests), program.runs) == (2, 2)

    asyncio.run(scenario())


def test_requests_carry_the_impersonated_user() -> None:
    async def serve(_: web.BaseRequest) -> web.Response:
        return web.json_response({})

    async def scenario() -> None:
        async with serve_responses(serve) as seen:
            impersonation = Impersonation("bob", "7", ("dev",), {"example.org/why": ("test",)})
            client_config = replace(seen.config, impersonate=impersonation, login=AuthInfo(token="t"))
            async with Client.connect(client_config) as client:
                await client.version()
            sent = seen.headers[0]
            assert (sent["Authorization"], sent["Impersonate-User"]) == ("Bearer t", "bob")
            assert (sent["Impersonate-Uid"], sent["Impersonate-Group"]) == ("7", "dev")
            assert sent["Impersonate-Extra-example.org%2Fwhy"] == "test"

    asyncio.run(scenario())
