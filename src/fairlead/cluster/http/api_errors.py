"""Turn what the API server says no with into an error that says who must do what. Pure."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from fairlead import errors
from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.meta import Status

_USER: Final = re.compile(r'User "([^"]*)"')
_TEXT_LIMIT: Final = 300
_ETCD_LIMIT: Final = "etcdserver: request is too large"
READS: Final = frozenset({"get", "list", "watch", "head"})
"""Verbs that change nothing."""


class RequestInfo(Struct, frozen=True):
    """What was asked, in the words that roles use; a Struct, because there is one for each bind."""

    verb: str
    resource: str
    """`pods`, `nodes/status`, `leases.coordination.k8s.io`, or a path where there is no kind."""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return it for people."""
        named = f"{self.verb} {self.resource}" + (f" {self.name!r}" if self.name else "")
        return f"{named} in namespace {self.namespace!r}" if self.namespace else named


Maker = Callable[[Status, RequestInfo, ClusterConfig], errors.ClusterError]


def error_from_status(
    code: int, status: Status, asked: RequestInfo, config: ClusterConfig
) -> errors.ClusterError:
    """Return the error that an answer means."""
    make = (
        _too_large
        if _is_too_large(code, status)
        else _BY_REASON.get(status.reason) or _BY_CODE.get(code) or (_away if code >= 500 else _other)
    )
    error = make(status, asked, config)
    error.code, error.reason = code, status.reason
    return error


def _said(status: Status) -> str:
    """Return the server's words on one short line."""
    line = " ".join(status.message.split())
    return line if len(line) <= _TEXT_LIMIT else f"{line[: _TEXT_LIMIT - 1]}…"


def _unknown_user(status: Status, asked: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    who = f"user {config.user!r}" if config.user else "us"
    return errors.AccessError(
        f"{config.server} does not know {who} (401, on {asked})",
        hint=f"the login of {config.display_name} is not one of this cluster's, or has run out: log in anew",
    )


def _forbidden(status: Status, asked: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    found = _USER.search(status.message)
    user = found[1] if found else config.user or "the user"
    if "cannot" not in status.message and status.message:
        # An admission plugin said no; a role would not help.
        return errors.AccessError(
            f"{config.server} forbids {user} to {asked}: {_said(status)}",
            hint="the cluster's admission policy decides this: change the object, or ask the cluster's owner",
        )
    where = f" -n {asked.namespace}" if asked.namespace else ""
    check = f"kubectl auth can-i {asked.verb} {asked.resource}{where} --as {user}"
    return errors.AccessError(
        f"{user} may not {asked}",
        hint=f"grant it with a role, then check: {check}",
    )


def _not_found(status: Status, asked: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    if status.details.name:
        return errors.NotFoundError(
            f"{status.details.kind or asked.resource} {status.details.name!r} not found ({asked})"
        )
    return errors.MissingApiError(
        f"{config.server} does not serve {asked.resource} (on {asked})",
        hint="install what brings this API, or look at what is served: kubectl api-resources",
    )


def _exists(status: Status, asked: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    return errors.AlreadyExistsError(f"there is one already: {_said(status) or asked}")


def _conflict(status: Status, asked: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    return errors.ConflictError(f"cannot {asked}: {_said(status)}", hint="read it again and decide anew")


def _gone(status: Status, asked: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    return errors.GoneError(f"cannot {asked}: {_said(status) or 'that version is no longer kept'}")


def _wait(status: Status, asked: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    return errors.TooManyRequestsError(
        f"{config.server} is too busy to {asked}: {_said(status) or 'too many requests'}",
        hint="try again later, or with fewer requests at once",
    )


def _invalid(status: Status, asked: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    causes = [
        f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in status.details.causes
    ]
    text = "; ".join(" ".join(cause.split()) for cause in causes) or _said(status)
    return errors.InvalidError(f"cannot {asked}: {text}", hint="correct the named fields")


def _is_too_large(code: int, status: Status) -> bool:
    """Say whether an object has outgrown the server; of etcd's limit it tells as of a fault of its own."""
    annotations = any(
        cause.field == "metadata.annotations" and cause.message.startswith("Too long")
        for cause in status.details.causes
    )
    return code == 413 or annotations or _ETCD_LIMIT in status.message


def _too_large(status: Status, asked: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    return errors.TooLargeError(
        f"cannot {asked}: the object is too large: {_said(status)}", hint="make it smaller"
    )


def _timeout(status: Status, asked: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    if any(cause.reason == "ResourceVersionTooLarge" for cause in status.details.causes):
        return errors.TooNewError(f"cannot {asked}: {_said(status)}")
    return _away(status, asked, config)


def _away(status: Status, asked: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    error = errors.ClusterUnavailableError(
        f"{config.server} could not {asked}: {_said(status) or 'it gave no reason'}",
        hint="the API server is not well: look at its logs, then try again",
    )
    # It began and failed somewhere on the way.
    error.maybe_done = asked.verb not in READS
    return error


def _other(status: Status, asked: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    return errors.ClusterError(f"{config.server} would not {asked}: {_said(status) or 'it gave no reason'}")


_BY_REASON: Final[Mapping[str, Maker]] = {
    "Unauthorized": _unknown_user,
    "Forbidden": _forbidden,
    "NotFound": _not_found,
    "AlreadyExists": _exists,
    "Conflict": _conflict,
    "Gone": _gone,
    "Expired": _gone,
    "TooManyRequests": _wait,
    "Invalid": _invalid,
    "BadRequest": _invalid,
    "Timeout": _timeout,
}
_BY_CODE: Final[Mapping[int, Maker]] = {
    400: _invalid,
    401: _unknown_user,
    403: _forbidden,
    404: _not_found,
    405: _invalid,
    406: _invalid,
    409: _conflict,
    410: _gone,
    415: _invalid,
    422: _invalid,
    429: _wait,
    504: _timeout,
}
