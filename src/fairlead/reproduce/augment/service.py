"""A search service, `python -m fairlead.reproduce.augment.service FOLDER`: it answers when a load is durable.

All loads that wait share the next commit, and before it the service waits a moment for the other loaders that
are connected, as databases do it (`commit_delay` and `commit_siblings` of PostgreSQL). So one loader waits
for a commit after each of its batches, and two loaders share them.
"""

import json
import queue
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from fairlead.reproduce.augment.index import SearchIndex
from fairlead.signals import stop_signals

_MOST: Final = 64 << 20
"""Bytes of one load."""
_DELAY: Final = 0.01
"""Seconds that a commit waits for further loads, where there is another loader."""


class _Load:
    """A bulk load that waits for its commit."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.done = threading.Event()
        self.answer: dict[str, Any] = {}


class Committer(threading.Thread):
    """Indexes what waits, commits once for all of it, and lets the loaders go on."""

    def __init__(self, index: SearchIndex) -> None:
        super().__init__(daemon=True)
        self._index = index
        self._waiting: queue.SimpleQueue[_Load | None] = queue.SimpleQueue()
        self.loaders = 0
        """That are connected."""

    def load(self, body: bytes) -> dict[str, Any]:
        """Load documents, a line of JSON for each; return how many, once they are durable."""
        load = _Load(body)
        self._waiting.put(load)
        load.done.wait()
        return load.answer

    def close(self) -> None:
        """End after what waits."""
        self._waiting.put(None)
        self.join()

    def run(self) -> None:
        """Go on until closed."""
        while True:
            loads = [self._waiting.get()]
            taken = []
            while loads[-1] is not None:
                self._take(loads[-1])
                taken.append(loads[-1])
                more = self._next(len(taken))
                if more is None:
                    break
                loads.append(more[0])
            if taken:
                self._index.commit()
            for load in taken:
                load.done.set()
            if None in loads:
                return

    def _next(self, taken: int) -> "tuple[_Load | None] | None":
        """Return what waits, or comes in a moment if another loader may send it; None: nothing."""
        with suppress(queue.Empty):
            return (self._waiting.get(timeout=_DELAY if taken < self.loaders else 0.0),)
        return None

    def _take(self, load: _Load) -> None:
        try:
            documents = [json.loads(line) for line in load.body.splitlines()]  # all, or none
            load.answer = {"loaded": self._index.add(documents)}
        except (ValueError, TypeError) as error:
            load.answer = {"error": str(error)}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "SearchService"

    def handle(self) -> None:
        """Serve a connection, which counts as a loader."""
        committer = self.server.committer
        with self.server.counting:
            committer.loaders += 1
        try:
            super().handle()
        finally:
            with self.server.counting:
                committer.loaders -= 1

    def do_POST(self) -> None:
        """Take a bulk load."""
        size = int(self.headers.get("Content-Length", 0))
        if not 0 < size <= _MOST:
            self.close_connection = True
            self._answer(413, {"error": f"a load has at most {_MOST} bytes"})
            return
        answer = self.server.committer.load(self.rfile.read(size))
        self._answer(400 if "error" in answer else 200, answer)

    def do_GET(self) -> None:
        """Say how many documents are committed."""
        self._answer(200, {"documents": self.server.index.count()})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as its base names it
        """Say nothing."""

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class SearchService(ThreadingHTTPServer):
    """The service on a free port of the loopback."""

    daemon_threads = True

    def __init__(self, folder: str) -> None:
        self.index = SearchIndex(folder)
        self.committer = Committer(self.index)
        self.counting = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> "SearchService":
        self.committer.start()
        self._serving = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._serving.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._serving.join()
        self.committer.close()
        self.index.close()
        self.server_close()


def main(words: list[str]) -> int:
    """Serve until SIGTERM; the first line of the output is the address."""
    with stop_signals() as stop, SearchService(words[0]) as service:
        sys.stdout.write(f"{service.url}\n")
        sys.stdout.flush()
        stop.recv(1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
