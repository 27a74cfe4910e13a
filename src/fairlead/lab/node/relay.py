"""A TCP relay from the host's loopback into a node's network.

Run as `python -I -S relay.py SOCKET HOST PORT` inside the node's network namespace, with a listening socket
that was opened outside of it: a socket stays in the network namespace in which it was created.
"""

import asyncio
import contextlib
import socket
import sys

_CHUNK = 1 << 16


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes in one direction until end of file."""
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
    """Forward one connection; if either side fails, both are closed."""
    with contextlib.suppress(OSError):
        inner_reader, inner_writer = await asyncio.open_connection(host, port)
        try:
            await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))
        finally:
            inner_writer.close()
    writer.close()


async def serve(listener: socket.socket, host: str, port: int) -> None:
    """Forward every connection."""
    server = await asyncio.start_server(lambda r, w: forward(r, w, host, port), sock=listener, backlog=512)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], int(sys.argv[3])))
