"""Read kubeconfig files and merge several: the first file that defines an entry wins."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from fairlead import yamltext
from fairlead.cluster.http.codec import without_nulls
from fairlead.errors import KubeconfigError

E = TypeVar("E")


class Extension(Struct, frozen=True):
    """Data that another program keeps in a kubeconfig."""

    name: str
    extension: Any = None


class ClusterEntry(Struct, frozen=True, kw_only=True, rename="kebab"):
    """A server and how to verify it."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: tuple[Extension, ...] = ()


class Variable(Struct, frozen=True):
    """An environment variable of an exec plugin."""

    name: str
    value: str = ""


class Exec(Struct, frozen=True, kw_only=True, rename="camel"):
    """A program that prints credentials."""

    command: str = ""
    api_version: str = ""
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class UserEntry(Struct, frozen=True, kw_only=True, rename="kebab"):
    """The credentials of a user."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    auth_provider: Any = None
    exec: Exec | None = None
    as_: str = field(default="", name="as")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}


class ContextEntry(Struct, frozen=True, kw_only=True):
    """A user on a cluster."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _Cluster(Struct, frozen=True):
    name: str
    cluster: ClusterEntry = ClusterEntry()


class _User(Struct, frozen=True):
    name: str
    user: UserEntry = UserEntry()


class _Context(Struct, frozen=True):
    name: str
    context: ContextEntry = ContextEntry()


class _File(Struct, frozen=True, kw_only=True, rename="kebab"):
    current_context: str = ""
    clusters: tuple[_Cluster, ...] = ()
    users: tuple[_User, ...] = ()
    contexts: tuple[_Context, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedEntry(Generic[E]):
    """A named entry of a kubeconfig, and its file: paths are relative to the file."""

    value: E
    path: str
    where: str
    """For messages: `FILE: user 'jane'`."""

    def resolve_path(self, name: str) -> str:
        """Return the absolute path of a file that the entry names."""
        return os.path.join(os.path.dirname(os.path.abspath(self.path)), os.path.expanduser(name))


@dataclass(frozen=True, slots=True)
class Kubefile:
    """One kubeconfig, or several merged."""

    source: str
    current: str
    clusters: Mapping[str, NamedEntry[ClusterEntry]]
    users: Mapping[str, NamedEntry[UserEntry]]
    contexts: Mapping[str, NamedEntry[ContextEntry]]


def read(paths: Sequence[str]) -> Kubefile:
    """Read and merge kubeconfigs."""
    clusters: dict[str, NamedEntry[ClusterEntry]] = {}
    users: dict[str, NamedEntry[UserEntry]] = {}
    contexts: dict[str, NamedEntry[ContextEntry]] = {}
    current = ""
    for path in paths:
        file = _read(path)
        current = current or file.current_context
        for cluster in file.clusters:
            entry = NamedEntry(cluster.cluster, path, f"{path}: cluster {cluster.name!r}")
            clusters.setdefault(cluster.name, entry)
        for user in file.users:
            users.setdefault(user.name, NamedEntry(user.user, path, f"{path}: user {user.name!r}"))
        for context in file.contexts:
            named = NamedEntry(context.context, path, f"{path}: context {context.name!r}")
            contexts.setdefault(context.name, named)
    return Kubefile(os.pathsep.join(paths), current, clusters, users, contexts)


def _read(path: str) -> _File:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise KubeconfigError(
            f"{path}: the kubeconfig cannot be read: {error.strerror}",
            hint="correct --kubeconfig or KUBECONFIG, or ask the cluster's owner for the file",
        ) from None
    try:
        document = yamltext.parse(text)
    except yamltext.BadYamlError as error:
        raise KubeconfigError(f"{path}: not YAML: {error}", hint="correct that line") from None
    if not isinstance(document, dict):
        raise KubeconfigError(
            f"{path}: not a kubeconfig: it has no clusters, users or contexts", hint=_GET_ONE
        )
    try:
        return msgspec.convert(without_nulls(document), _File)
    except msgspec.ValidationError as error:
        raise KubeconfigError(f"{path}: not a kubeconfig: {error}", hint="correct that field") from None


_GET_ONE = "get one from the cluster's owner, or start a cluster of your own with: fairlead lab up"
