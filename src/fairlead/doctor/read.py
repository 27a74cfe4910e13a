"""Read a cluster once. A kind that is forbidden or not served is recorded and stops no other check."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Protocol

from fairlead.cluster.api import ClusterClient
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import LEASES, Kind
from fairlead.cluster.times import parse_time
from fairlead.doctor.rights import required_rules
from fairlead.doctor.view import PROGRAMS, AccessRule, ClusterView, Pod
from fairlead.errors import AccessError, MissingApiError, NotFoundError
from fairlead.manifest import listing
from fairlead.modelprofiles.types import MODEL_PROFILES
from fairlead.settings.scheduler import FOOTPRINTS_NAME

LEASE: Final = "fairlead-scheduler"
_AT_ONCE: Final = 8
_REVIEW: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_SELF: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


PODS: Final = Kind("", "v1", "pods", True, Pod, "Pod")
_KINDS: Final[dict[str, Kind[Any]]] = {
    # Pods are listed before claims: a claim without a pod is then never one whose pod ended in between.
    "pods": PODS,
    "claims": listing.CLAIMS,
    "nodes": listing.NODES,
    "slices": listing.SLICES,
    "priorities": listing.PRIORITY_CLASSES,
}


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The version and clock of a server, and our user there."""

    version: tuple[int, int]
    user: str
    now: datetime


class ServerReviews(Protocol):
    """The requests to an API server beside its objects."""

    async def server_info(self) -> ServerInfo:
        """Return the server's version, our user there, and the server's time."""

    async def allows(self, right: AccessRule) -> bool:
        """Return whether an account has a right."""


class ApiServerReviews:
    """The requests to a real API server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def server_info(self) -> ServerInfo:
        """Return version, user and time; the time is the creation timestamp of a SelfSubjectReview."""
        version = await self._client.version()
        review = await self._post(
            _SELF, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        )
        user = review.get("status", {}).get("userInfo", {}).get("username", "")
        return ServerInfo(
            (_number(version.major), _number(version.minor)),
            str(user),
            parse_time(str(review["metadata"]["creationTimestamp"])),
        )

    async def allows(self, right: AccessRule) -> bool:
        """Ask by a SubjectAccessReview."""
        name, _, group = right.resource.partition(".")
        plural, _, sub = name.partition("/")
        namespace, _, account = right.account.partition("/")
        attributes = {"verb": right.verb, "group": group, "resource": plural, "subresource": sub}
        spec = {
            "user": f"system:serviceaccount:{namespace}:{account}",
            "groups": [
                "system:serviceaccounts",
                f"system:serviceaccounts:{namespace}",
                "system:authenticated",
            ],
            "resourceAttributes": {**attributes, "namespace": right.namespace, **_named(right)},
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        return (await self._post(_REVIEW, body)).get("status", {}).get("allowed") is True

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            await self._client.request("POST", path, body=json.dumps(body).encode())
        )
        return answer


def _named(right: AccessRule) -> dict[str, str]:
    """Return the object name that a right is limited to: the account may change only objects of ours."""
    names = {"leases.coordination.k8s.io": LEASE, "configmaps": FOOTPRINTS_NAME}
    ours = right.resource in names and right.verb != "create"
    return {"name": names[right.resource]} if ours else {}


def _number(text: str) -> int:
    digits = "".join(char for char in text if char.isdecimal())
    return int(digits) if digits else 0


async def read(
    server: ServerReviews, cluster: ClusterClient, local_time: datetime, scheduler: str
) -> ClusterView:
    """Read a cluster; `local_time` is this machine's. Errors that leave nothing to check are raised."""
    info = await server.server_info()
    view = ClusterView(info.version, info.user, info.now, (local_time - info.now).total_seconds(), scheduler)
    lists: dict[str, Any] = {}
    missing, forbidden = set[str](), dict[str, str]()
    for name, kind in _KINDS.items():
        lists[name] = await _list_kind(cluster, kind, missing, forbidden)
    lists["leases"] = await _list_kind(cluster, LEASES, missing, forbidden, fields=f"metadata.name={LEASE}")
    await _list_kind(cluster, MODEL_PROFILES, missing, forbidden)
    forbidden.pop(MODEL_PROFILES.plural, None)  # a server that forbids them serves them
    view = replace(view, **lists, missing=frozenset(missing), forbidden=forbidden)
    return await _with_missing_rights(server, view)


async def _list_kind(
    cluster: ClusterClient,
    kind: Kind[Any],
    missing: set[str],
    forbidden: dict[str, str],
    fields: str | None = None,
) -> Iterable[Any]:
    try:
        return (await cluster.list(kind, fields=fields)).items
    except (MissingApiError, NotFoundError):
        missing.add(kind.plural)
    except AccessError as error:
        forbidden[kind.plural] = str(error)
    return ()


async def _with_missing_rights(server: ServerReviews, view: ClusterView) -> ClusterView:
    """Return a view with the rights that our accounts lack."""
    programs = [view.component(name) for name in PROGRAMS]
    rights = [right for right in required_rules(*programs) if not _unserved(view, right)]
    semaphore = asyncio.Semaphore(_AT_ONCE)

    async def lacks(right: AccessRule) -> bool:
        async with semaphore:
            return not await server.allows(right)

    try:
        answers = await asyncio.gather(*(lacks(right) for right in rights))
    except AccessError as error:
        return replace(view, forbidden={**view.forbidden, "accounts": str(error)})
    return replace(
        view, missing_rights=tuple(right for right, missing in zip(rights, answers, strict=True) if missing)
    )


def _unserved(view: ClusterView, right: AccessRule) -> bool:
    return "resourceslices" in view.missing and right.resource.endswith(".resource.k8s.io")
