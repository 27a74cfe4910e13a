"""Doors that echo, and whoever knocks at them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fairlead.compat.aio import timeout
from fairlead.kubelet import messages as wire
from fairlead.kubelet.proto import Message
from fairlead.kubelet.sockets import GrpcServer, UnaryMethod
from tests.kubelet.kubelets import PATIENCE, Line, dial

ECHO, WATCH = "/test/Echo", "/test/Watch"
Answer = Callable[[wire.Claim], Awaitable[Message]]


async def echo(claim: wire.Claim) -> Message:
    return claim


def door(place: Path, answer: Answer = echo, **more: Any) -> GrpcServer:
    return GrpcServer(place, [UnaryMethod(ECHO, wire.Claim, answer)], **more)


@asynccontextmanager
async def opened(made: GrpcServer) -> AsyncIterator[Line]:
    await made.open()
    try:
        async with dial(made.path) as line:
            yield line
    finally:
        async with timeout(PATIENCE):
            await made.close()


async def sound(line: Line) -> bool:
    """Tell whether a door serves."""
    return (await line.call(ECHO, wire.Claim("n"), wire.Claim)) == wire.Claim("n")
