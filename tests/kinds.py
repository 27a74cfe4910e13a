"""The kinds that the chart defines, on a real API server; all tests of a run share them."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
import yaml

from deploy import render
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import CRDS, Kind
from fairlead.compat.aio import timeout
from fairlead.errors import MissingApiError, NotFoundError
from tests.labs import RealApi


def definition(file: str) -> dict[str, Any]:
    """Return the definition of a kind that is shipped for `kubectl apply`."""
    documents = yaml.safe_load_all((render.MANIFESTS / file).read_text())
    return next(each for each in documents if each["kind"] == "CustomResourceDefinition")


def define_kind(api: RealApi, file: str, kind: Kind[Any]) -> None:
    """Install a kind on a real API server."""

    async def inside() -> None:
        async with Client.connect(api.config) as client:
            if api.lab is None and not await _served(client, kind):
                pytest.skip(f"the user's own cluster does not serve the kind {kind.name}")
            if api.lab is not None:
                await client.request(
                    "PATCH",
                    CRDS.path(None, kind.resource),
                    query={"fieldManager": "test", "force": "true", "fieldValidation": "Strict"},
                    body=json.dumps(definition(file)).encode(),
                    content_type="application/apply-patch+yaml",
                )
            async with timeout(300):
                while not await _served(client, kind):
                    await asyncio.sleep(0.05)

    asyncio.run(inside())


def forget_kind(api: RealApi, file: str) -> None:
    """Remove a kind from an API server whose tests expect no kind of ours, and wait until it is gone."""
    made = definition(file)
    group = made["spec"]["group"]
    services = f"/apis/apiregistration.k8s.io/v1/apiservices/{made['spec']['versions'][0]['name']}.{group}"
    path = CRDS.path(None, made["metadata"]["name"])

    async def inside() -> None:
        async with Client.connect(api.config) as client, timeout(300):
            with suppress(NotFoundError):
                await client.request("DELETE", path)
            for each in (path, services):
                with suppress(NotFoundError):
                    while True:
                        await client.request("GET", each)
                        if each == services and await _has_kinds(client, group):
                            return
                        await asyncio.sleep(0.2)

    asyncio.run(inside())


async def _has_kinds(client: Client, group: str) -> bool:
    """Return whether a group still has kinds that are defined by others."""
    listed = json.loads(await client.request("GET", CRDS.path(None)))
    return any(each["spec"]["group"] == group for each in listed["items"])


async def _served(client: Client, kind: Kind[Any]) -> bool:
    try:
        await client.list(kind, labels="fairlead.dev/setup=none")
    except MissingApiError:
        return False
    return True
