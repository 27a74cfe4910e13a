"""A write without an answer times out after seconds, and its outcome is read back."""

import asyncio
import json

import msgspec

from fairlead.cluster.client import Client
from fairlead.cluster.http.transport import READ_TIMEOUT
from fairlead.placement import Placement
from fairlead.request import Request
from fairlead.serve.scheduler.bind.writes import BindingPlan
from fairlead.settings.scheduler import SchedulerSettings
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.cluster.loopback import serve_bytes
from tests.serve.scheduler.bind.test_binder import binder
from tests.serve.scheduler.flows import run_on_server
from tests.serve.scheduler.objects import GIB, pod


def test_a_binding_without_an_answer_is_read_back_and_counts() -> None:
    bound = msgspec.to_builtins(pod("a", 2, on="n", mib=1024))

    async def talk(head: bytes, writer: asyncio.StreamWriter) -> None:
        if head.startswith(b"POST"):
            await asyncio.Event().wait()  # carried out, and the connection stays open without a byte
        body = json.dumps(bound).encode()
        answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        writer.write(answer % (len(body), body))
        await writer.drain()

    async def scenario() -> None:
        share = (DeviceShare("gpu-0", Bytes(GIB)),)
        plan = BindingPlan(pod("a", mib=1024), Placement(Request("a", uid="uid-a"), "n", share))
        async with serve_bytes(talk) as seen, Client.connect(seen.config, read_timeout=0.2) as client:
            assert await run_on_server(client, binder().bind([plan], 3)) == {}
            assert [line.split(" ")[0] for line in seen.requests] == ["POST", "PATCH"]

    asyncio.run(scenario())


def test_the_scheduler_times_out_much_earlier_than_other_clients() -> None:
    assert SchedulerSettings("me").answer_within < READ_TIMEOUT / 5
