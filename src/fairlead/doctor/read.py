"""Read a cluster once. What may not be looked at, or is not there, is noted and stands in no check's way."""

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

LEASE: Final = "fairlead-scheduler"
_AT_ONCE: Final = 8
_REVIEW: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_SELF: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


PODS: Final = Kind("", "v1", "pods", True, Pod, "Pod")
_KINDS: Final[dict[str, Kind[Any]]] = {
    # Pods come before claims: a claim that is there without its pod is then no pod that came in between.
    "pods": PODS,
    "claims": listing.CLAIMS,
    "nodes": listing.NODES,
    "slices": listing.SLICES,
    "priorities": listing.PRIORITY_CLASSES,
}


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server says of itself and of us."""

    version: tuple[int, int]
    user: str
    now: datetime


class ServerReviews(Protocol):
    """What is asked of an API server beside its objects."""

    async def server_info(self) -> ServerInfo:
        """Return what it is, who we are there, and what time it has."""

    async def allows(self, right: AccessRule) -> bool:
        """Say whether an account has a right."""


class ApiServerReviews:
    """A real one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def server_info(self) -> ServerInfo:
        """Return what it is, who we are there, and what time it has: it dates its answer to that question."""
        version = await self._client.version()
        said = await self._post(
            _SELF, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        )
        user = said.get("status", {}).get("userInfo", {}).get("username", "")
        return ServerInfo(
            (_number(version.major), _number(version.minor)),
            str(user),
            parse_time(str(said["metadata"]["creationTimestamp"])),
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
    """Return the name that a right is bound to: of leases there is one that may be changed."""
    ours = right.resource.startswith("leases.") and right.verb != "create"
    return {"name": LEASE} if ours else {}


def _number(text: str) -> int:
    digits = "".join(char for char in text if char.isdecimal())
    return int(digits) if digits else 0


async def read(server: ServerReviews, cluster: ClusterClient, here: datetime, scheduler: str) -> ClusterView:
    """Look at a cluster; `here` is the time of this machine. What makes it impossible is raised."""
    welcome = await server.server_info()
    sight = ClusterView(
        welcome.version, welcome.user, welcome.now, (here - welcome.now).total_seconds(), scheduler
    )
    found: dict[str, Any] = {}
    missing, blind = set[str](), dict[str, str]()
    for name, kind in _KINDS.items():
        found[name] = await _list_kind(cluster, kind, missing, blind)
    found["leases"] = await _list_kind(cluster, LEASES, missing, blind, fields=f"metadata.name={LEASE}")
    await _list_kind(cluster, MODEL_PROFILES, missing, blind)
    blind.pop(MODEL_PROFILES.plural, None)  # who may not read them knows that they are there
    sight = replace(sight, **found, missing=frozenset(missing), blind=blind)
    return await _with_missing_rights(server, sight)


async def _list_kind(
    cluster: ClusterClient,
    kind: Kind[Any],
    missing: set[str],
    blind: dict[str, str],
    fields: str | None = None,
) -> Iterable[Any]:
    try:
        return (await cluster.list(kind, fields=fields)).items
    except (MissingApiError, NotFoundError):
        missing.add(kind.plural)
    except AccessError as error:
        blind[kind.plural] = str(error)
    return ()


async def _with_missing_rights(server: ServerReviews, sight: ClusterView) -> ClusterView:
    """Return a sight that also knows which rights accounts of ours lack."""
    programs = [sight.component(name) for name in PROGRAMS]
    rights = [each for each in required_rules(*programs) if not _unserved(sight, each)]
    room = asyncio.Semaphore(_AT_ONCE)

    async def lacks(right: AccessRule) -> bool:
        async with room:
            return not await server.allows(right)

    try:
        answers = await asyncio.gather(*(lacks(each) for each in rights))
    except AccessError as error:
        return replace(sight, blind={**sight.blind, "accounts": str(error)})
    return replace(sight, lacking=tuple(each for each, no in zip(rights, answers, strict=True) if no))


def _unserved(sight: ClusterView, right: AccessRule) -> bool:
    return "resourceslices" in sight.missing and right.resource.endswith(".resource.k8s.io")
