"""Find the cluster: one kubeconfig, several merged, or the service account of the pod that runs this program.

Every fault in them becomes one line that says what is wrong, where, and what to do.
"""

import os
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from fairlead.cluster.config import certificate
from fairlead.cluster.config.kubefile import ClusterEntry, E, Exec, Kubefile, NamedEntry, UserEntry, read
from fairlead.cluster.config.plugin import API, VERSIONS
from fairlead.cluster.config.types import AuthInfo, ClusterConfig, ExecPlugin, Impersonation
from fairlead.compat.times import UTC
from fairlead.errors import KubeconfigError

SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_SHOWN: Final = 8
"""Known names to list when a name was not found."""


def load(
    path: str | None = None,
    context: str | None = None,
    *,
    env: Mapping[str, str] = os.environ,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    mounted: str = SERVICE_ACCOUNT,
) -> ClusterConfig:
    """Return the configuration of the cluster that the user selected.

    It comes from the file at `path`, else from those of $KUBECONFIG, else from ~/.kube/config, else from this
    pod's service account, which is mounted at `mounted`.
    """
    listed = [part for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]
    default_path = os.path.join(env.get("HOME") or os.path.expanduser("~"), ".kube", "config")
    if path is not None:
        paths = [path]
    elif listed:
        # Like kubectl: files of the list that do not exist are skipped, unless none exists.
        paths = [part for part in listed if os.path.exists(part)] or listed[:1]
    elif os.path.exists(default_path):
        paths = [default_path]
    elif env.get("KUBERNETES_SERVICE_HOST") and context is None:
        return in_cluster(env, mounted)
    else:
        raise KubeconfigError(
            f"no cluster is configured: {default_path} does not exist, and KUBECONFIG is not set",
            hint="name a kubeconfig, or start a cluster of your own with: fairlead lab up",
        )
    return _config(read(paths), context, now())


def in_cluster(env: Mapping[str, str] = os.environ, mounted: str = SERVICE_ACCOUNT) -> ClusterConfig:
    """Return the cluster of the pod that runs this program."""
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT") or "443"
    if not host:
        raise KubeconfigError(
            "not running in a pod: KUBERNETES_SERVICE_HOST is not set", hint="name a kubeconfig"
        )
    try:
        with open(os.path.join(mounted, "ca.crt"), "rb") as file:
            authority = file.read()
    except OSError as error:
        raise KubeconfigError(
            f"{mounted}: no service account is mounted: {error.strerror}",
            hint="leave automountServiceAccountToken of the pod and of its service account on",
        ) from None
    try:
        with open(os.path.join(mounted, "namespace"), encoding="utf-8") as name:
            namespace = name.read().strip()
    except OSError:
        namespace = ""
    return ClusterConfig(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        source=mounted,
        user="the pod's service account",
        namespace=namespace or "default",
        ca=authority,
        login=AuthInfo(token_file=os.path.join(mounted, "token")),
    )


def _config(file: Kubefile, wanted: str | None, now: datetime) -> ClusterConfig:
    name = wanted or file.current
    if not name:
        raise KubeconfigError(
            f"{file.source}: no context is chosen", hint=f"choose one with --context: {_names(file.contexts)}"
        )
    context = _pick(
        file.contexts, name, f"{file.source}: no context {name!r}", "--context or current-context"
    )
    cluster = _pick(
        file.clusters, context.value.cluster, f"{context.where} names no known cluster", "its cluster"
    )
    login, impersonation = AuthInfo(), None
    if context.value.user:
        user = _pick(file.users, context.value.user, f"{context.where} names no known user", "its user")
        login, impersonation = _login(user, cluster, now), _impersonation(user.value)
    return ClusterConfig(
        server=_server(cluster),
        source=file.source,
        context=name,
        user=context.value.user,
        namespace=context.value.namespace or "default",
        ca=_data(
            cluster,
            "certificate-authority",
            cluster.value.certificate_authority,
            cluster.value.certificate_authority_data,
        ),
        insecure=cluster.value.insecure_skip_tls_verify,
        server_name=cluster.value.tls_server_name,
        proxy=cluster.value.proxy_url,
        login=login,
        impersonate=impersonation,
    )


def _pick(entries: Mapping[str, NamedEntry[E]], name: str, missing: str, where: str) -> NamedEntry[E]:
    if name in entries:
        return entries[name]
    quoted_name = f" ({name!r})" if name and repr(name) not in missing else ""
    raise KubeconfigError(f"{missing}{quoted_name}", hint=f"correct {where}; known: {_names(entries)}")


def _names(entries: Iterable[str]) -> str:
    names = sorted(entries)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more or "none"


def _server(cluster: NamedEntry[ClusterEntry]) -> str:
    server = cluster.value.server
    try:
        parts = urlsplit(server)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        valid = valid and not (parts.query or parts.fragment or parts.username or parts.password)
    except ValueError:
        valid = False
    if not valid:
        raise KubeconfigError(
            f"{cluster.where}: server {server!r} is not a URL",
            hint="write it like https://10.0.0.1:6443",
        )
    return server.rstrip("/")


def _login(user: NamedEntry[UserEntry], cluster: NamedEntry[ClusterEntry], now: datetime) -> AuthInfo:
    entry = user.value
    if entry.username or entry.password:
        raise KubeconfigError(
            f"{user.where} logs in with a password, which API servers no longer accept",
            hint="use a client certificate, a token or an exec plugin",
        )
    if entry.auth_provider is not None:
        raise KubeconfigError(
            f"{user.where} uses an auth-provider, which Kubernetes has removed",
            hint="use the cloud's exec plugin, such as kubelogin or gke-gcloud-auth-plugin",
        )
    client_certificate = _data(
        user, "client-certificate", entry.client_certificate, entry.client_certificate_data
    )
    key = _data(user, "client-key", entry.client_key, entry.client_key_data)
    if bool(client_certificate) != bool(key):
        lacks = "client-key" if client_certificate else "client-certificate"
        has = "client-certificate" if client_certificate else "client-key"
        raise KubeconfigError(f"{user.where} has a {has} but no {lacks}", hint=f"add {lacks}(-data)")
    _check_date(user, client_certificate, now)
    return AuthInfo(
        certificate=client_certificate,
        key=key,
        token=entry.token.strip(),
        token_file=user.resolve_path(entry.token_file) if entry.token_file else "",
        plugin=_plugin(user, entry.exec, cluster.value) if entry.exec else None,
    )


def _check_date(user: NamedEntry[UserEntry], client_certificate: bytes, now: datetime) -> None:
    expiry = certificate.expiry(client_certificate)
    if client_certificate and expiry is None and b"BEGIN CERTIFICATE" not in client_certificate:
        raise KubeconfigError(
            f"{user.where}: client-certificate(-data) holds no PEM certificate", hint="get the user a new one"
        )
    if expiry is not None and expiry <= now:
        raise KubeconfigError(
            f"{user.where}: the client certificate expired on {expiry:%Y-%m-%d %H:%M} UTC",
            hint="get a new one from the cluster's owner (kubeadm: kubeadm certs renew), "
            "or correct this machine's clock",
        )


def _plugin(user: NamedEntry[UserEntry], entry: Exec, cluster: ClusterEntry) -> ExecPlugin:
    if entry.api_version not in VERSIONS:
        raise KubeconfigError(
            f"{user.where}: exec.apiVersion {entry.api_version!r} is not known",
            hint=f"write {' or '.join(VERSIONS)}, whichever the plugin supports",
        )
    if not entry.command:
        raise KubeconfigError(f"{user.where}: exec has no command", hint="name the plugin to run")
    if entry.interactive_mode == "Always":
        raise KubeconfigError(
            f"{user.where}: exec plugin {entry.command!r} always needs a terminal, and this program has none",
            hint="set exec.interactiveMode to IfAvailable, or use another way to log in",
        )
    cluster_config = next((item.extension for item in cluster.extensions if item.name == f"{API}/exec"), None)
    return ExecPlugin(
        command=user.resolve_path(entry.command) if "/" in entry.command else entry.command,
        api_version=entry.api_version,
        args=entry.args,
        env=tuple((item.name, item.value) for item in entry.env),
        install_hint=entry.install_hint,
        provide_cluster_info=entry.provide_cluster_info,
        cluster_config=cluster_config,
    )


def _impersonation(entry: UserEntry) -> Impersonation | None:
    if not entry.as_:
        return None
    return Impersonation(entry.as_, entry.as_uid, entry.as_groups, entry.as_user_extra)


def _data(entry: NamedEntry[E], what: str, path: str, inline: str) -> bytes:
    """Return the inline data of an entry, else the content of the file that it names."""
    if inline:
        try:
            return b64decode("".join(inline.split()), validate=True)
        except ValueError:
            raise KubeconfigError(
                f"{entry.where}: {what}-data is not base64",
                hint="copy the whole value again, without line breaks",
            ) from None
    if not path:
        return b""
    full = entry.resolve_path(path)
    try:
        with open(full, "rb") as file:
            return file.read()
    except OSError as error:
        raise KubeconfigError(
            f"{entry.where}: {what} {full} cannot be read: {error.strerror}",
            hint=f"correct the path, or put the content into {what}-data",
        ) from None
