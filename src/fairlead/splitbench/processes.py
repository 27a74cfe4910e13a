"""The processes of a measurement: a store with its coordinator, and one worker for each rate."""

import http.client
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.errors import SplitBenchError
from fairlead.pipeline.programs import launch

_END: Final = 5.0
_REPLY: Final = 60.0


@dataclass(slots=True)
class ServedStore:
    """A store that runs, in a folder of its own."""

    folder: str
    token: str
    url: str
    child: "subprocess.Popen[str]"
    connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the connection of the measurement."""
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_REPLY)

    @property
    def root(self) -> str:
        """The folder that it serves."""
        return f"{self.folder}/root"

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.url.rstrip("/").rpartition(":")[2])

    @property
    def peak_memory(self) -> int:
        """Bytes of its memory, at most so far."""
        with open(f"/proc/{self.child.pid}/status", encoding="utf-8") as file:
            line = next(line for line in file if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    @property
    def processor_seconds(self) -> float:
        """Seconds of a processor that it has used."""
        with open(f"/proc/{self.child.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))

    def ask(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask the coordinator."""
        body = b"" if document is None else json.dumps(document).encode()
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            self.connection.request(method, f"/.fairlead/jobs{path}", body, headers)
            response = self.connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            raise SplitBenchError(f"the store does not answer: {error}") from None
        if response.status >= 300:
            why = data.decode(errors="replace").strip()
            raise SplitBenchError(f"the store answers {response.status}: {why}")
        return dict(json.loads(data))


@contextmanager
def served_store(folder: str) -> Iterator[ServedStore]:
    """Yield a store that runs; it ends with the block."""
    root, token_file, token = f"{folder}/root", f"{folder}/token", secrets.token_hex(16)
    os.makedirs(root)
    with open(token_file, "w", encoding="utf-8") as file:
        file.write(f"{token}\n")
    words = ("serve", "store", "--root", root, "--token-file", token_file, "--listen", "127.0.0.1:0")
    with open(f"{folder}/store.log", "w", encoding="utf-8") as log:
        child = subprocess.Popen(  # noqa: S603  # our own program
            _with_parent("-m", "fairlead", *words), stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert child.stdout is not None
        url = child.stdout.readline().strip()
        if not url:
            with open(f"{folder}/store.log", encoding="utf-8") as file:
                raise SplitBenchError(f"the store did not start: {file.read().strip()[-400:]}")
        store = ServedStore(folder, token, url, child)
        with closing(store.connection):
            yield store
    finally:
        _end(child)


@dataclass(slots=True)
class RateWorker:
    """A worker that runs."""

    name: str
    rate: float
    child: "subprocess.Popen[str]"

    def wait_until_ready(self) -> None:
        """Wait until it is connected."""
        assert self.child.stdout is not None
        if self.child.stdout.readline().strip() != "ready":
            raise SplitBenchError(f"{self.name} did not connect to the store")

    def say(self, line: str) -> None:
        """Tell it something."""
        assert self.child.stdin is not None
        with suppress(BrokenPipeError):
            self.child.stdin.write(f"{line}\n")
            self.child.stdin.flush()

    def kill(self) -> None:
        """End it without a warning."""
        self.child.send_signal(signal.SIGKILL)

    def end(self) -> None:
        """End it."""
        _end(self.child)


def start_worker(spec: Mapping[str, Any]) -> RateWorker:
    """Start a worker."""
    child = subprocess.Popen(  # noqa: S603  # our own program
        _with_parent("-m", "fairlead.splitbench.worker", json.dumps(spec)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return RateWorker(str(spec["name"]), float(spec["rate"]), child)


def _with_parent(*words: str) -> tuple[str, ...]:
    """Return the words of a Python program that ends with this process, also where that is killed."""
    python = sys.executable
    return (python, "-I", "-S", launch.__file__, str(os.getpid()), python, python, *words)


def _end(child: "subprocess.Popen[str]") -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_END)
        except subprocess.TimeoutExpired:
            child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
