"""ReviewedAccess: the owner of a token, and what they may see, as the API server says.

A TokenReview names the person; SubjectAccessReviews say in which namespaces they may list pods, and the rest.
The answers count for a minute. While the API server does not answer, those of the last ten minutes count: the
page then shows what is stale, to people whom it knew before.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead.cluster.client import Client
from fairlead.cluster.http.codec import encode_plain
from fairlead.dashboard.viewer import Viewer
from fairlead.errors import ClusterError, FairleadError
from fairlead.keys import DOMAIN
from fairlead.serve.dashboard.access import Unavailable

VALID: Final = 60.0
"""Seconds for which an answer about a valid token counts."""
INVALID: Final = 10.0
STALE: Final = 600.0
"""Seconds for which it counts while the API server does not answer."""
MOST: Final = 1000
"""Tokens whose answers are kept."""
AT_ONCE: Final = 16
_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_TABLES: Final = {"pipelines": (DOMAIN, "pipelines"), "augmentations": (DOMAIN, "augmentations")}
"""Tables of resources of their own."""
_CLUSTER_WIDE: Final = {"models": (DOMAIN, "modelprofiles")}
_ACTIONS: Final[Mapping[str, tuple[str, str, str, bool]]] = {
    "cancel": ("delete", "", "pods", True),
    "rightsize": ("patch", "apps", "deployments", True),
    "drain": ("patch", "", "nodes", False),
}
"""Verb, group and resource that an action needs at least, and whether it is of a namespace."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Known:
    """An answer about a token; None: it is not valid."""

    viewer: Viewer | None
    at: float


class ReviewedAccess:
    """Access by tokens of the cluster."""

    def __init__(
        self,
        client: Callable[[], Client],
        namespaces: Callable[[], Collection[str]],
        actions: Collection[str] = (),
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`namespaces` returns those that may be visible; `actions` are allowed to those with the right."""
        self._client = client
        self._namespaces = namespaces
        self._actions = tuple(actions)
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._known: dict[bytes, _Known] = {}
        self._asking: dict[bytes, asyncio.Task[Viewer | Unavailable | None]] = {}
        self._reviews = asyncio.Semaphore(AT_ONCE)

    async def __call__(self, token: str) -> Viewer | Unavailable | None:
        """Return the viewer of a token; requests with one token ask once."""
        key = hashlib.sha256(token.encode()).digest()
        known, now = self._known.get(key), self._clock()
        if known is not None and now - known.at < (INVALID if known.viewer is None else VALID):
            return known.viewer
        if key not in self._asking:
            task = asyncio.create_task(self._ask(token, key, known))
            self._asking[key] = task
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return await asyncio.shield(self._asking[key])

    async def _ask(self, token: str, key: bytes, known: _Known | None) -> Viewer | Unavailable | None:
        try:
            viewer = await self._viewer(token)
        except (FairleadError, TimeoutError) as error:
            if known is not None and known.viewer is not None and self._clock() - known.at < STALE:
                return known.viewer
            return Unavailable(str(error) or "the API server does not answer")
        self._known.pop(key, None)
        self._known[key] = _Known(viewer, self._clock())
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]
        return viewer

    async def _viewer(self, token: str) -> Viewer | None:
        status = await self._review(_TOKENS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        if status.get("authenticated") is not True or status.get("error"):
            return None
        user: Json = status.get("user") or {}
        nodes, everywhere = await asyncio.gather(
            self._may(user, "list", "", "nodes"), self._may(user, "list", "", "pods")
        )
        namespaces = None if everywhere else await self._visible(user)
        shown = sorted(namespaces or ())
        return Viewer(
            str(user.get("username") or "unknown"),
            namespaces,
            nodes,
            await self._allowed_actions(user, shown, everywhere=everywhere),
            await self._hidden(user, shown, everywhere=everywhere),
        )

    async def _visible(self, user: Json) -> frozenset[str]:
        """Return the namespaces whose pods a person may list."""
        names = sorted(name for name in self._namespaces() if name)
        allowed = await asyncio.gather(*(self._may(user, "list", "", "pods", name) for name in names))
        return frozenset(name for name, may in zip(names, allowed, strict=True) if may)

    async def _hidden(
        self, user: Json, namespaces: Iterable[str], *, everywhere: bool
    ) -> frozenset[tuple[str, str]]:
        """Return the tables that a person may not see, though they may list pods there."""
        asked = [(table, "*", *kind, "") for table, kind in _CLUSTER_WIDE.items()]
        for table, kind in _TABLES.items():
            asked += [(table, name or "*", *kind, name) for name in ([""] if everywhere else namespaces)]
        allowed = await asyncio.gather(
            *(self._may(user, "list", group, resource, name) for _, _, group, resource, name in asked)
        )
        return frozenset((each[0], each[1]) for each, may in zip(asked, allowed, strict=True) if not may)

    async def _allowed_actions(
        self, user: Json, namespaces: list[str], *, everywhere: bool
    ) -> tuple[str, ...]:
        """Return the actions that a person may do somewhere: whether there, the API server decides."""
        found = []
        for action in self._actions:
            verb, group, resource, namespaced = _ACTIONS[action]
            places = namespaces if namespaced and not everywhere else [""]
            allowed = await asyncio.gather(*(self._may(user, verb, group, resource, name) for name in places))
            if any(allowed):
                found.append(action)
        return tuple(found)

    async def _may(self, user: Json, verb: str, group: str, resource: str, namespace: str = "") -> bool:
        """Ask whether a person may do something; in doubt they may not."""
        attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
        spec = {
            "user": user.get("username"),
            "uid": user.get("uid"),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "resourceAttributes": attributes,
        }
        status = await self._review(_ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        return status.get("allowed") is True and not status.get("denied")

    async def _review(self, path: str, version: str, kind: str, spec: Json) -> Json:
        body = encode_plain({"apiVersion": version, "kind": kind, "spec": spec})
        async with self._reviews:
            answer = await self._client().request("POST", path, body=body)
        try:
            document = json.loads(answer)
            status = document["status"]
        except (ValueError, KeyError, TypeError):
            status = None
        if not isinstance(status, dict):
            raise ClusterError(f"the API server's {kind} cannot be read", "check its version")
        return status
