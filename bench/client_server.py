"""Serve one recorded pod many times: a list in pages, and a watch, as an API server would.

Run by client.py: `client_server.py POD.json PODS PAGE EVENTS` prints its port and serves until input ends.
The bytes are encoded before the first request, so that the server itself costs almost nothing.
"""

import asyncio
import json
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def variant(template: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the pod under a name of its own, on one of 5,000 nodes."""
    metadata = {
        **template["metadata"],
        "name": f"pod-{number:05}",
        "uid": f"00000000-0000-4000-8000-{number:012}",
        "resourceVersion": str(1000 + number),
    }
    spec = {**template["spec"], "nodeName": f"node-{number % 5000:04}"}
    return {**template, "metadata": metadata, "spec": spec}


def pages(template: dict[str, Any], pods: int, size: int) -> list[bytes]:
    """Return the bodies of a list, page by page; objects in a list have no apiVersion and kind."""
    bare = {key: value for key, value in template.items() if key not in ("apiVersion", "kind")}
    bodies = []
    for start in range(0, pods, size):
        last = start + size >= pods
        metadata = (
            {"resourceVersion": "900000"}
            if last
            else {"resourceVersion": "900000", "continue": str(start + size)}
        )
        items = [variant(bare, number) for number in range(start, min(start + size, pods))]
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}
        bodies.append(json.dumps(body, separators=(",", ":")).encode())
    return bodies


def events(template: dict[str, Any], count: int) -> list[bytes]:
    """Return the lines of a watch, each as one HTTP chunk, as the API server sends them."""
    lines = []
    for number in range(count):
        event = {"type": "MODIFIED", "object": variant(template, number)}
        line = json.dumps(event, separators=(",", ":")).encode() + b"\n"
        lines.append(b"%x\r\n%s\r\n" % (len(line), line))
    return lines


class Server:
    """Answers from memory."""

    def __init__(self, bodies: list[bytes], lines: list[bytes], size: int) -> None:
        self._bodies = bodies
        self._lines = lines
        self._size = size

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer every request of one connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                query = parse_qs(urlsplit(head.split(b" ", 2)[1].decode()).query)
                if "watch" in query:
                    await self._watch(writer)
                else:
                    body = self._bodies[int(query.get("continue", ["0"])[0]) // self._size]
                    writer.write(HEAD % len(body) + body)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _watch(self, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM)
        for line in self._lines:
            writer.write(line)
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def main() -> None:
    """Serve until the parent process closes the standard input."""
    path, pods, size, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    with open(path, encoding="utf-8") as file:
        template = json.load(file)
    serving = Server(pages(template, pods, size), events(template, count), size)
    server = await asyncio.start_server(serving.serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
