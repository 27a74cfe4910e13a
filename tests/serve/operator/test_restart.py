"""The operator survives the end of its API server, on a lab of its own."""

import asyncio
import io
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.cluster.kinds import CONFIG_MAPS, CRDS
from fairlead.errors import ClusterError
from fairlead.lab.build.prerequisites import gather
from fairlead.lab.run import home
from fairlead.lab.run.down import down
from fairlead.lab.run.restart import restart
from fairlead.lab.run.state import Lab, LabProfile
from fairlead.lab.run.steps import StepPrinter
from fairlead.lab.run.up import LabSpec, up
from fairlead.serve.operator.driver import OperatorReplica
from fairlead.serve.operator.kinds import client_kind
from fairlead.settings.leader import LeaderElectionConfig
from fairlead.settings.operator import OperatorSettings
from tests.serve.operator.widgets import WIDGETS, WidgetController, definition, widget

_KIND = client_kind(WIDGETS)
_QUIET = StepPrinter(io.StringIO())


@pytest.fixture
def lab(real_api: object) -> Iterator[Lab]:
    """Return a lab of this test alone; it skips where the shared one does."""
    name, where = f"test-{os.getpid()}-operator", home.default(os.environ)
    gather(LabProfile.API, _QUIET, kwok=False)
    try:
        yield up(where, LabSpec(LabProfile.API, name, owner=os.getpid()), _QUIET)
    finally:
        down(where, name)


def test_the_operator_goes_on_after_the_api_server_was_killed(lab: Lab) -> None:
    async def scenario() -> list[str]:
        lines: list[str] = []
        config = kubeconfig.load(str(lab.kubeconfig))
        settings = OperatorSettings(
            "one", lease=LeaderElectionConfig("default", "fairlead-operator", 4.0, 3.0, 0.3)
        )
        stop = asyncio.Event()
        async with Client.connect(config) as client, Client.connect(config) as own, asyncio.timeout(120):
            await client.create(CRDS.raw(), definition())
            operator = OperatorReplica(own, [WidgetController()], settings, lines.append)
            task = asyncio.create_task(operator.run(stop))
            await _until(client, "one", create=True)
            await asyncio.to_thread(
                restart, home.default(os.environ), lab.name, "kube-apiserver", _QUIET, kill=True
            )
            await client.patch(_KIND, "a", {"spec": {"text": "two"}}, "default")
            await _until(client, "two")
            stop.set()
            await task
        return lines

    assert asyncio.run(scenario())[-1] == "stopped; released the Lease"


async def _until(client: Client, text: str, *, create: bool = False) -> None:
    """Wait until the ConfigMaps of the widget have this text; create it before, once its kind is served."""
    while True:
        with suppress(ClusterError):
            if create:
                await client.create(_KIND, widget("a", configs=2, text=text), "default")
                create = False
            listed = (await client.list(CONFIG_MAPS, "default")).items
            if {one.data.get("text") for one in listed if one.metadata.name.startswith("a-")} == {text}:
                return
        await asyncio.sleep(0.1)
