"""Run a kubeconfig's exec plugin: `aws eks get-token`, `gke-gcloud-auth-plugin`, `kubelogin`."""

import asyncio
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from fairlead.cluster.config.types import ClusterConfig, ExecPlugin
from fairlead.cluster.meta import ObjectPart
from fairlead.cluster.times import parse_time
from fairlead.compat.aio import timeout
from fairlead.errors import KubeconfigError

API: Final = "client.authentication.k8s.io"
VERSIONS: Final = (f"{API}/v1", f"{API}/v1beta1")
TIMEOUT: Final = 60.0
"""Seconds for the program to answer; some ask a service far away."""
_TEXT_LIMIT: Final = 200


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """What the program gave us, and until when it holds."""

    token: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    expires: float | None = None
    """Seconds since 1970."""


class _Credentials(ObjectPart, frozen=True):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class _Printed(ObjectPart, frozen=True):
    api_version: str = ""
    kind: str = ""
    status: _Credentials | None = None


async def run_plugin(config: ClusterConfig, env: Mapping[str, str]) -> ExecCredential:
    """Run the program and read what it prints; it has no terminal to ask anything on."""
    plugin = config.login.plugin
    assert plugin is not None
    here = f"{config.source}: user {config.user!r}: exec plugin {plugin.command!r}"
    path = shutil.which(plugin.command, path=env.get("PATH", os.defpath))
    if path is None:
        raise KubeconfigError(
            f"{here} is not installed or not executable",
            hint=_line(plugin.install_hint) or "install it, or correct users[].user.exec.command",
        )
    world = {**env, **dict(plugin.env), "KUBERNETES_EXEC_INFO": _info(config, plugin)}
    return parse_credential(await _output(path, plugin, world, here), plugin, here)


async def _output(path: str, plugin: ExecPlugin, env: Mapping[str, str], here: str) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            path, *plugin.args, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=env
        )
    except OSError as error:
        raise KubeconfigError(
            f"{here} cannot be run: {error.strerror}", hint="correct or reinstall it"
        ) from None
    try:
        async with timeout(TIMEOUT):
            printed, complaint = await process.communicate()
    except TimeoutError:
        raise KubeconfigError(
            f"{here} did not answer within {TIMEOUT:.0f} s", hint="run it by hand to see what it waits for"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = _line(complaint.decode("utf-8", "replace")) or "it said nothing"
        raise KubeconfigError(
            f"{here} failed ({process.returncode}): {said}",
            hint=_line(plugin.install_hint) or "log in anew with it, or run it by hand",
        )
    return printed


def parse_credential(printed: bytes, plugin: ExecPlugin, here: str) -> ExecCredential:
    """Read what the program printed."""
    try:
        found = msgspec.json.decode(printed, type=_Printed)
        expires = found.status.expiration_timestamp if found.status else ""
        until = parse_time(expires).timestamp() if expires else None
    except (msgspec.MsgspecError, ValueError) as error:
        # Never the text itself: it may hold a secret.
        raise _junk(here, f"printed no ExecCredential: {_line(str(error))}") from None
    if found.kind != "ExecCredential" or found.status is None:
        raise _junk(here, "printed no ExecCredential with a status")
    if found.api_version != plugin.api_version:
        raise _junk(here, f"answered in {found.api_version!r}, not in {plugin.api_version!r}")
    got = found.status
    if not got.token and not (got.client_certificate_data and got.client_key_data):
        raise _junk(here, "gave neither a token nor a certificate with its key")
    return ExecCredential(
        got.token, got.client_certificate_data.encode(), got.client_key_data.encode(), until
    )


def _junk(here: str, what: str) -> KubeconfigError:
    return KubeconfigError(f"{here} {what}", hint="run it by hand, or correct users[].user.exec.apiVersion")


def _info(config: ClusterConfig, plugin: ExecPlugin) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.provide_cluster_info:
        cluster = {
            "server": config.server,
            "tls-server-name": config.server_name,
            "insecure-skip-tls-verify": config.insecure,
            "certificate-authority-data": b64encode(config.ca).decode(),
            "proxy-url": config.proxy,
            "config": plugin.cluster_config,
        }
        spec["cluster"] = {key: value for key, value in cluster.items() if value}
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(info).decode()


def _line(text: str) -> str:
    """Return the last line of what a program said: there the reason stands."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    return last if len(last) <= _TEXT_LIMIT else f"{last[: _TEXT_LIMIT - 1]}…"
