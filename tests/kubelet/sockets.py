"""gRPC servers that echo, and connections to them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fairlead.compat.aio import timeout
from fairlead.kubelet import messages as wire
from fairlead.kubelet.proto import Message
from fairlead.kubelet.sockets import GrpcServer, UnaryMethod
from tests.kubelet.kubelets import PATIENCE, Connection, dial

ECHO, WATCH = "/test/Echo", "/test/Watch"
Answer = Callable[[wire.Claim], Awaitable[Message]]


async def echo(claim: wire.Claim) -> Message:
    return claim


def echo_server(place: Path, answer: Answer = echo, **more: Any) -> GrpcServer:
    return GrpcServer(place, [UnaryMethod(ECHO, wire.Claim, answer)], **more)


@asynccontextmanager
async def connected(server: GrpcServer) -> AsyncIterator[Connection]:
    await server.open()
    try:
        async with dial(server.path) as connection:
            yield connection
    finally:
        async with timeout(PATIENCE):
            await server.close()


async def answers(connection: Connection) -> bool:
    """Say whether a server answers."""
    return (await connection.call(ECHO, wire.Claim("n"), wire.Claim)) == wire.Claim("n")
