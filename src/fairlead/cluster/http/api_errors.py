"""Turn a failed response of the API server into an error that says what to do about it. Pure."""

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
    """What a request asks for, in the words of RBAC roles; a Struct, because every bind makes one."""

    verb: str
    resource: str
    """`pods`, `nodes/status`, `leases.coordination.k8s.io`, or a path if the request has no kind."""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return the request as error messages show it."""
        named = f"{self.verb} {self.resource}" + (f" {self.name!r}" if self.name else "")
        return f"{named} in namespace {self.namespace!r}" if self.namespace else named


Maker = Callable[[Status, RequestInfo, ClusterConfig], errors.ClusterError]


def error_from_status(
    code: int, status: Status, info: RequestInfo, config: ClusterConfig
) -> errors.ClusterError:
    """Return the error that a response's status code and reason mean."""
    make = (
        _too_large
        if _is_too_large(code, status)
        else _BY_REASON.get(status.reason) or _BY_CODE.get(code) or (_unavailable if code >= 500 else _other)
    )
    error = make(status, info, config)
    error.code, error.reason = code, status.reason
    return error


def _message(status: Status) -> str:
    """Return the server's message on one short line."""
    line = " ".join(status.message.split())
    return line if len(line) <= _TEXT_LIMIT else f"{line[: _TEXT_LIMIT - 1]}…"


def _unauthorized(status: Status, info: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    user = f"user {config.user!r}" if config.user else "this client"
    return errors.AccessError(
        f"{config.server} does not accept the credentials of {user} (401, on {info})",
        hint=f"the credentials of {config.display_name} are not for this cluster, or have expired: "
        "log in again",
    )


def _forbidden(status: Status, info: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    match = _USER.search(status.message)
    user = match[1] if match else config.user or "the user"
    if "cannot" not in status.message and status.message:
        # An admission plugin refused the request; a role would not help.
        return errors.AccessError(
            f"{config.server} forbids {user} to {info}: {_message(status)}",
            hint="the cluster's admission policy decides this: change the object, or ask the cluster's owner",
        )
    where = f" -n {info.namespace}" if info.namespace else ""
    check = f"kubectl auth can-i {info.verb} {info.resource}{where} --as {user}"
    return errors.AccessError(
        f"{user} may not {info}",
        hint=f"grant it with a role, then check: {check}",
    )


def _not_found(status: Status, info: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    if status.details.name:
        return errors.NotFoundError(
            f"{status.details.kind or info.resource} {status.details.name!r} not found ({info})"
        )
    return errors.MissingApiError(
        f"{config.server} does not serve {info.resource} (on {info})",
        hint="install the component that serves this API, or list what is served: kubectl api-resources",
    )


def _already_exists(status: Status, info: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    return errors.AlreadyExistsError(f"the object already exists: {_message(status) or info}")


def _conflict(status: Status, info: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    return errors.ConflictError(f"cannot {info}: {_message(status)}", hint="read the object again and retry")


def _gone(status: Status, info: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    return errors.GoneError(f"cannot {info}: {_message(status) or 'the server no longer keeps that version'}")


def _too_many_requests(status: Status, info: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    return errors.TooManyRequestsError(
        f"{config.server} is too busy to {info}: {_message(status) or 'too many requests'}",
        hint="try again later, or with fewer requests at once",
    )


def _invalid(status: Status, info: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    causes = [
        f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in status.details.causes
    ]
    text = "; ".join(" ".join(cause.split()) for cause in causes) or _message(status)
    return errors.InvalidError(f"cannot {info}: {text}", hint="correct the named fields")


def _is_too_large(code: int, status: Status) -> bool:
    """Return whether an object exceeds a size limit; etcd's limit comes as an internal error (500)."""
    annotations = any(
        cause.field == "metadata.annotations" and cause.message.startswith("Too long")
        for cause in status.details.causes
    )
    return code == 413 or annotations or _ETCD_LIMIT in status.message


def _too_large(status: Status, info: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    return errors.TooLargeError(
        f"cannot {info}: the object is too large: {_message(status)}", hint="make it smaller"
    )


def _timeout(status: Status, info: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    if any(cause.reason == "ResourceVersionTooLarge" for cause in status.details.causes):
        return errors.TooNewError(f"cannot {info}: {_message(status)}")
    return _unavailable(status, info, config)


def _unavailable(status: Status, info: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    error = errors.ClusterUnavailableError(
        f"{config.server} could not {info}: {_message(status) or 'it gave no reason'}",
        hint="the API server has a problem: read its logs, then try again",
    )
    # The server began to execute the request and failed at some point.
    error.maybe_done = info.verb not in READS
    return error


def _other(status: Status, info: RequestInfo, config: ClusterConfig) -> errors.ClusterError:
    return errors.ClusterError(
        f"{config.server} refused to {info}: {_message(status) or 'it gave no reason'}"
    )


_BY_REASON: Final[Mapping[str, Maker]] = {
    "Unauthorized": _unauthorized,
    "Forbidden": _forbidden,
    "NotFound": _not_found,
    "AlreadyExists": _already_exists,
    "Conflict": _conflict,
    "Gone": _gone,
    "Expired": _gone,
    "TooManyRequests": _too_many_requests,
    "Invalid": _invalid,
    "BadRequest": _invalid,
    "Timeout": _timeout,
}
_BY_CODE: Final[Mapping[int, Maker]] = {
    400: _invalid,
    401: _unauthorized,
    403: _forbidden,
    404: _not_found,
    405: _invalid,
    406: _invalid,
    409: _conflict,
    410: _gone,
    415: _invalid,
    422: _invalid,
    429: _too_many_requests,
    504: _timeout,
}
