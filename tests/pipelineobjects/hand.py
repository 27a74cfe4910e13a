"""A Pipeline on a real cluster, with what its controller returns applied by hand: the shortest operator."""

import asyncio
from contextlib import suppress
from datetime import datetime
from typing import Any

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import Kind
from fairlead.compat.times import UTC
from fairlead.errors import NotFoundError
from fairlead.keys import PIPELINE
from fairlead.pipelineobjects.controller import PipelineController
from fairlead.pipelineobjects.issuer import AuthorityIssuer
from fairlead.reconcile import Manifest, Observed, Reconciled, ResourceKind

PIPELINES = Kind.of("fairlead.dev", "v1alpha1", "pipelines", namespaced=True, name="Pipeline")
_PAUSE = 0.3


class HandOperator:
    """Reconciles the Pipelines of one namespace until it is cancelled."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._controller = PipelineController(AuthorityIssuer())

    async def run(self) -> None:
        """Reconcile again and again."""
        while True:
            for each in (await self._client.list(PIPELINES, self._namespace)).items:
                await self._reconcile(each.document())
            await asyncio.sleep(_PAUSE)

    async def _reconcile(self, resource: dict[str, Any]) -> None:
        owned: dict[ResourceKind, list[Manifest]] = {}
        for kind in self._controller.owns:
            labels = f"{PIPELINE}={resource['metadata']['name']}"
            items = (await self._client.list(_kind(kind), self._namespace, labels=labels)).items
            owned[kind] = [each.document() for each in items if _is_ours(each.document())]
        decided = self._controller.reconcile(Observed(resource, owned, {}, datetime.now(UTC)))
        await self._apply(resource, owned, decided)

    async def _apply(
        self, resource: dict[str, Any], owned: dict[ResourceKind, list[Manifest]], decided: Reconciled
    ) -> None:
        kinds = {kind.kind: kind for kind in self._controller.owns}
        owner = {key: resource[key] for key in ("apiVersion", "kind")} | {"controller": True}
        owner |= {key: resource["metadata"][key] for key in ("name", "uid")}
        for each in decided.objects:
            body = {**each, "metadata": {**each["metadata"], "ownerReferences": [owner]}}
            kind, name = _kind(kinds[each["kind"]]), each["metadata"]["name"]
            await self._client.patch(kind, name, body, self._namespace, patch_type="apply", force=True)
        wanted = {(each["kind"], each["metadata"]["name"]) for each in decided.objects} | decided.keep
        for kind_of, objects in owned.items():
            for each in objects:
                name = each["metadata"]["name"]
                if (kind_of.kind, name) not in wanted:
                    await self._client.delete(_kind(kind_of), name, self._namespace)
        if decided.status is not None and decided.status != resource.get("status"):
            patch = {"status": decided.status}
            with suppress(NotFoundError):
                name = resource["metadata"]["name"]
                await self._client.patch_status(PIPELINES, name, patch, self._namespace)


def _kind(kind: ResourceKind) -> Kind[Any]:
    group, _, version = kind.api_version.rpartition("/")
    return Kind.of(group, version, kind.plural, namespaced=True, name=kind.kind)


def _is_ours(document: Manifest) -> bool:
    return any(each.get("controller") for each in document["metadata"].get("ownerReferences") or ())
