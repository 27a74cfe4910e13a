"""The dashboard while its API server is away: what it shows is said to be stale, and it heals by itself."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.catalog import load
from fairlead.cluster.client import Client
from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.kinds import NODES
from fairlead.serve.dashboard.cluster.source import ClusterSettings, ClusterSource
from fairlead.usage.source import SourceName, UsageSettings
from tests.cluster.chaos.api import ChaosApi
from tests.serve.dashboard.served import Served, served

pytestmark = pytest.mark.skipif(
    os.environ.get("FAIRLEAD_CHAOS") != "long", reason="half a minute: FAIRLEAD_CHAOS=long"
)
PATIENCE = 120.0


def await_answer(server: Served, path: str, wanted: Callable[[Any], bool]) -> Any:
    """Return an answer once it is as wanted."""
    end = time.monotonic() + PATIENCE
    while not wanted(answer := server.get(path).json):
        assert time.monotonic() < end, answer
    return answer


def names(page: Any) -> list[str]:
    """Return the names of the rows of a table."""
    return [row["name"] for row in page["rows"]]


async def add_node(config: ClusterConfig, name: str) -> None:
    """Make a node."""
    async with Client.connect(config) as client:
        await client.create(NODES, {"metadata": {"name": name}})


def test_the_dashboard_says_what_is_stale_and_heals(chaos_api: ChaosApi) -> None:
    config = chaos_api.config
    asyncio.run(add_node(config, "before"))
    settings = ClusterSettings(UsageSettings(SourceName.NONE), lease="kube-system")
    with served(ClusterSource(config, load(), settings)) as server:
        await_answer(server, "/api/v1/tables/nodes", lambda page: "before" in names(page))
        began = time.time()
        chaos_api.kill()
        page = await_answer(server, "/api/v1/tables/nodes", lambda page: page["stale"])
        assert names(page) == ["before"], "the last that is known stays"
        assert began - 60 < page["stale"]["since"] <= time.time()
        (entry, *_) = server.get("/api/v1/about").json["stale"]
        assert entry["source"] == "api-server"
        assert entry["reason"]
        asyncio.run(chaos_api.restart())
        asyncio.run(add_node(config, "after"))
        await_answer(server, "/api/v1/tables/nodes", lambda page: names(page) == ["after", "before"])
        await_answer(server, "/api/v1/about", lambda about: about["stale"] == [])
