"""The store beside Apache's mod_dav and rclone in one run: `make bench-webdav`.

Files of 100 kB over 1 and 8 connections, and one large file, in rounds whose order alternates. "None": an
answer may come before the file is on the disk (the store with --no-sync). "All sync": a PUT counts when it
is on the disk with its name; the store does that itself, for the others the client calls fsync on both after
each answer. Medians and ranges; exits 1 if a bar is missed.
"""

import argparse
import hashlib
import multiprocessing
import os
import platform
import socket
import statistics
import sys
import tempfile
import time
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.webdav_servers import CONTENDERS, TOKEN, Contender, Server, serving, version

SMALL: Final = 100_000
_SECRET: Final = b64encode(f"x:{TOKEN}".encode()).decode()
Figures = dict[str, float]


class Client:
    """One connection; as little Python as can be, since it shares the machine with the server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._sock = socket.create_connection(("127.0.0.1", server.port))
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(4 << 20))

    def put(self, name: str, source: int, size: int, sync: bool) -> None:
        """Upload the beginning of an open file; with `sync` return when it is on the disk."""
        self._sock.sendall(_head("PUT", name, f"Content-Length: {size}\r\n"))
        sent = 0
        while sent < size:
            sent += os.sendfile(self._sock.fileno(), source, sent, size - sent)
        head, _ = self._answer()
        if not head.startswith((b"HTTP/1.1 201", b"HTTP/1.1 204")):
            sys.exit(f"PUT: {head!r}")
        if sync and not self._server.syncs:
            _sync(self._server.folder / name)
            _sync(self._server.folder)

    def get(self, name: str) -> int:
        """Download a file; return its size."""
        self._sock.sendall(_head("GET", name, ""))
        head, received = self._answer()
        if not head.startswith(b"HTTP/1.1 200"):
            sys.exit(f"GET: {head!r}")
        size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        while received < size:
            received += self._sock.recv_into(self._buffer) or sys.exit("GET: the connection ended")
        return size

    def close(self) -> None:
        """Close the connection."""
        self._sock.close()

    def _answer(self) -> tuple[bytes, int]:
        """Return the head of an answer, and how many bytes of its body came with it."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._sock.recv(65536) or sys.exit("the connection ended")
        head, _, body = data.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200") and b"content-length:" in head.lower():
            left = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]) - len(body)
            while left > 0:
                left -= len(self._sock.recv(left))
        return head, len(body)


def _head(method: str, name: str, more: str) -> bytes:
    return (
        f"{method} /{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {_SECRET}\r\n{more}\r\n"
    ).encode()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def spread(
    server: Server, connections: int, names: list[str], work: Callable[[Client, str], object]
) -> float:
    """Return the seconds in which several connections, each a process, do the work for all names."""
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(connections + 1)

    def run(part: list[str]) -> None:
        client = Client(server)
        ready.wait()
        for name in part:
            work(client, name)
        client.close()

    clients = [context.Process(target=run, args=(names[each::connections],)) for each in range(connections)]
    for each in clients:
        each.start()
    ready.wait()
    began = time.perf_counter()
    for each in clients:
        each.join()
    if any(each.exitcode for each in clients):
        sys.exit("a client failed")
    return time.perf_counter() - began


def measure(server: Server, source: int, files: int, large: int, sync: bool) -> Figures:
    """Return the figures of one round."""
    figures = {}
    for connections in (1, 8):
        names = [f"{connections}-{number}" for number in range(files)]
        took = spread(server, connections, names, lambda client, name: client.put(name, source, SMALL, sync))
        figures[f"PUT/s x{connections}"] = files / took
        figures[f"GET/s x{connections}"] = files / spread(server, connections, names, lambda c, n: c.get(n))
    client = Client(server)
    began = time.perf_counter()
    client.put("large", source, large, sync)
    figures["PUT MB/s"] = large / 1e6 / (time.perf_counter() - began)
    began = time.perf_counter()
    client.get("large")
    figures["GET MB/s"] = large / 1e6 / (time.perf_counter() - began)
    client.close()
    check(server, source, large)
    (server.folder / "large").unlink()
    return figures


def check(server: Server, source: int, large: int) -> None:
    """Compare what the server has stored with what was sent."""
    with (server.folder / "large").open("rb") as file:
        stored = hashlib.file_digest(file, "sha256").digest()
    sent = hashlib.sha256()
    for offset in range(0, large, 1 << 20):
        sent.update(os.pread(source, min(1 << 20, large - offset), offset))
    if stored != sent.digest():
        sys.exit("a server stored another content than was sent")


def rounds_of(
    contenders: list[Contender], sync: bool, options: argparse.Namespace, scratch: Path, source: int
) -> dict[str, dict[str, list[float]]]:
    """Return the figures of all rounds, by contender and measure."""
    found: dict[str, dict[str, list[float]]] = {each.name: defaultdict(list) for each in contenders}
    for number in range(options.rounds):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            with serving(contender, scratch) as server:
                # The disk's own pauses belong to nobody.
                os.sync()
                for name, value in measure(server, source, options.files, options.large, sync).items():
                    found[contender.name][name].append(value)
    return found


def show(title: str, found: dict[str, dict[str, list[float]]]) -> dict[str, Figures]:
    """Print a table, and return the medians."""
    measures = list(next(iter(found.values())))
    print(f"\n{title}")
    print(f"{'':20}" + "".join(f"{name:>22}" for name in measures))
    for contender, values in found.items():
        cells = [
            f"{statistics.median(values[name]):.0f} ({min(values[name]):.0f}-{max(values[name]):.0f})"
            for name in measures
        ]
        print(f"{contender:20}" + "".join(f"{cell:>22}" for cell in cells))
    return {
        contender: {name: statistics.median(values[name]) for name in measures}
        for contender, values in found.items()
    }


def missed(title: str, ours: Figures, medians: dict[str, Figures]) -> list[str]:
    """Return the bars that are missed."""
    bars = [(name, 1.0, "rclone") for name in ("PUT/s x1", "PUT/s x8", "PUT MB/s")]
    lines = []
    for name, least, peer in (*bars, ("GET MB/s", 0.5, "Apache mod_dav")):
        ratio = ours[name] / medians[peer][name]
        print(f"{title}: {name} is {ratio:.2f} times that of {peer} (bar: {least})")
        if ratio < least:
            lines.append(f"{title}: {name}")
    return lines


def main() -> int:
    """Measure, print, and say whether the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=500, help="small files in each round")
    parser.add_argument("--large", type=int, default=500 << 20, help="bytes of the large file")
    parser.add_argument("--folder", help="measure on this file system (default: that of temporary files)")
    options = parser.parse_args()
    print(
        f"{platform.platform()}, {os.cpu_count()} processors, {options.rounds} rounds, {options.files} files"
    )
    print(", ".join(f"{kind} {version(kind)}" for kind in ("store", "rclone", "apache")))
    with tempfile.TemporaryDirectory(dir=options.folder) as name, tempfile.TemporaryFile() as source:
        scratch = Path(name)
        scratch.chmod(0o755)
        for _ in range(-(-options.large >> 20)):
            source.write(os.urandom(1 << 20))
        source.flush()
        lines = []
        for title, sync, left_out in (("none", False, "fairlead"), ("all sync", True, "fairlead --no-sync")):
            contenders = [each for each in CONTENDERS if each.name != left_out]
            medians = show(title, rounds_of(contenders, sync, options, scratch, source.fileno()))
            lines += missed(title, medians[contenders[0].name], medians)
    print("\nevery bar is held" if not lines else f"\nmissed: {', '.join(lines)}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
