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
"""Seconds for the program to answer; some programs call a remote service."""
_TEXT_LIMIT: Final = 200


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """The credential that the program printed, and when it expires."""

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


class _PrintedCredential(ObjectPart, frozen=True):
    api_version: str = ""
    kind: str = ""
    status: _Credentials | None = None


async def run_plugin(config: ClusterConfig, env: Mapping[str, str]) -> ExecCredential:
    """Run the program and parse its output; it has no terminal for questions."""
    plugin = config.login.plugin
    assert plugin is not None
    subject = f"{config.source}: user {config.user!r}: exec plugin {plugin.command!r}"
    path = shutil.which(plugin.command, path=env.get("PATH", os.defpath))
    if path is None:
        raise KubeconfigError(
            f"{subject} is not installed or not executable",
            hint=_last_line(plugin.install_hint) or "install it, or correct users[].user.exec.command",
        )
    environment = {**env, **dict(plugin.env), "KUBERNETES_EXEC_INFO": _exec_info(config, plugin)}
    return parse_credential(await _run(path, plugin, environment, subject), plugin, subject)


async def _run(path: str, plugin: ExecPlugin, env: Mapping[str, str], subject: str) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            path, *plugin.args, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=env
        )
    except OSError as error:
        raise KubeconfigError(
            f"{subject} cannot be run: {error.strerror}", hint="correct or reinstall it"
        ) from None
    try:
        async with timeout(TIMEOUT):
            stdout, stderr = await process.communicate()
    except TimeoutError:
        raise KubeconfigError(
            f"{subject} did not answer within {TIMEOUT:.0f} s",
            hint="run it by hand to see what it waits for",
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        reason = _last_line(stderr.decode("utf-8", "replace")) or "it printed no reason"
        raise KubeconfigError(
            f"{subject} failed ({process.returncode}): {reason}",
            hint=_last_line(plugin.install_hint) or "log in again with it, or run it by hand",
        )
    return stdout


def parse_credential(stdout: bytes, plugin: ExecPlugin, subject: str) -> ExecCredential:
    """Parse the program's output."""
    try:
        printed = msgspec.json.decode(stdout, type=_PrintedCredential)
        expires = printed.status.expiration_timestamp if printed.status else ""
        until = parse_time(expires).timestamp() if expires else None
    except (msgspec.MsgspecError, ValueError) as error:
        # Never the text itself: it may contain a secret.
        raise _bad_output(subject, f"printed no ExecCredential: {_last_line(str(error))}") from None
    if printed.kind != "ExecCredential" or printed.status is None:
        raise _bad_output(subject, "printed no ExecCredential with a status")
    if printed.api_version != plugin.api_version:
        raise _bad_output(subject, f"answered in {printed.api_version!r}, not in {plugin.api_version!r}")
    status = printed.status
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise _bad_output(subject, "printed neither a token nor a certificate with its key")
    return ExecCredential(
        status.token, status.client_certificate_data.encode(), status.client_key_data.encode(), until
    )


def _bad_output(subject: str, what: str) -> KubeconfigError:
    return KubeconfigError(
        f"{subject} {what}", hint="run it by hand, or correct users[].user.exec.apiVersion"
    )


def _exec_info(config: ClusterConfig, plugin: ExecPlugin) -> str:
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


def _last_line(text: str) -> str:
    """Return the last line of a program's output, which holds the reason."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    return last if len(last) <= _TEXT_LIMIT else f"{last[: _TEXT_LIMIT - 1]}…"
