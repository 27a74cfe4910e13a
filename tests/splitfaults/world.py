"""A job among processes that are killed, cut off, and run out of disk, while their clock jumps."""

import hashlib
import http.client
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.reproduce.emulation.relay import Relay
from tests.splitfaults.worker import content, expected

TOKEN = "a token of the faults"
COMPILER = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
_SPACE = 24 << 20
_PATIENCE = 120.0


def free_port() -> int:
    """Return a port that nothing listens on."""
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class World:
    """A store, a device behind a relay, and a pod beside the volume."""

    folder: Path
    dice: random.Random
    inputs: int
    disk: bool
    """Whether the store is on a small volume of its own, which can be filled."""
    port: int = field(default_factory=free_port)
    environ: dict[str, str] = field(default_factory=dict)
    children: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    link: Relay = field(init=False)
    job: str = ""
    done: list[str] = field(default_factory=list)
    """What was done to it."""

    def __post_init__(self) -> None:
        """Prepare the folders, the clock and the link."""
        self.environ = dict(os.environ)
        self.volume.mkdir(exist_ok=True)
        self.root.mkdir(exist_ok=True)
        (self.folder / "token").write_text(f"{TOKEN}\n")
        self.shift = self.folder / "shift"
        self.shift.write_bytes(struct.pack("l", 0))
        self._build_clock()
        self.link = Relay(("127.0.0.1", self.port))

    @property
    def volume(self) -> Path:
        """The folder of the volume."""
        return self.folder / "volume"

    @property
    def root(self) -> Path:
        """The folder that the store serves."""
        return self.volume / "root"

    def start(self, name: str) -> None:
        """Start a process, if it does not run."""
        child = self.children.get(name)
        if child is not None and child.poll() is None:
            return
        words = self._store_words() if name == "store" else self._worker_words(name)
        self.children[name] = subprocess.Popen(
            (sys.executable, "-m", *words),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self.environ,
            cwd=Path(__file__).parents[2],
        )

    def kill(self, name: str) -> None:
        """Kill a process, and wait for its end."""
        child = self.children[name]
        child.kill()
        child.wait()

    def submit(self) -> None:
        """Make the job, and name all inputs."""
        self.job = str(
            self.ask("POST", "", {"command": ["x"], "policy": "split", "keep_inputs": True})["job"]
        )
        stated = []
        for number in range(self.inputs):
            path = self.root / "jobs" / self.job / "in" / f"{number}"
            path.write_bytes(content(number))
            digest = hashlib.sha256(content(number)).hexdigest()
            stated.append(
                {"path": f"{number}", "digest": digest, "size": len(content(number)), "stored": True}
            )
        self.ask("POST", f"/{self.job}/inputs", {"inputs": stated, "complete": True})

    def ask(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask the coordinator, until it answers."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._ask(method, path, document)
            except (OSError, http.client.HTTPException, ValueError):
                if time.monotonic() > end:
                    raise
                threading.Event().wait(0.05)

    def strike(self, kind: str) -> None:
        """Do something to it."""
        self.done.append(kind)
        getattr(self, f"_{kind}")()

    def finish(self) -> None:
        """Start all that was killed, and wait until each input has a result and each result a file."""
        end = time.monotonic() + _PATIENCE
        while True:
            for name in ("store", "device", "pod"):
                self.start(name)
            state = self.ask("GET", f"/{self.job}")
            if state["state"] == "done" and not any(each["unplaced"] for each in self.results()):
                return
            assert time.monotonic() < end, (self.done, state)
            threading.Event().wait(0.05)

    def results(self) -> list[dict[str, Any]]:
        """Return all results that are recorded."""
        rows: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            page = self.ask("GET", f"/{self.job}/results?after={after}")
            rows += page["results"]
            after = page["next"]
        return rows

    def check(self) -> None:
        """Compare every result with its input."""
        rows = self.results()
        assert sorted(int(each["path"]) for each in rows) == list(range(self.inputs)), self.done
        assert self.ask("GET", f"/{self.job}/failures")["failures"] == [], self.done
        out = self.root / "jobs" / self.job / "out"
        assert len(list(out.iterdir())) == self.inputs, self.done
        for row in rows:
            right = expected(content(int(row["path"])))
            assert row["result"] == hashlib.sha256(right).hexdigest(), self.done
            assert (out / row["path"]).read_bytes() == right, (self.done, row)

    def close(self) -> None:
        """End all processes."""
        for child in self.children.values():
            child.kill()
            child.wait()
        self.link.close()

    def _ask(self, method: str, path: str, document: Mapping[str, Any] | None) -> dict[str, Any]:
        body = None if document is None else json.dumps(document)
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request(method, f"/.fairlead/jobs{path}", body, {"Authorization": f"Bearer {TOKEN}"})
            answer = connection.getresponse()
            data = answer.read()
        if answer.status >= 300:
            raise ValueError(f"{answer.status}: {data!r}")
        return dict(json.loads(data))

    def _kill_device(self) -> None:
        self.kill("device")
        if self.dice.random() < 0.3:  # another machine: what it had finished is gone
            shutil.rmtree(self.folder / "device", ignore_errors=True)
        self.start("device")

    def _kill_pod(self) -> None:
        self.kill("pod")
        self.start("pod")

    def _kill_store(self) -> None:
        self.kill("store")
        threading.Event().wait(self.dice.random() * 0.3)
        self.start("store")

    def _cut_link(self) -> None:
        self.link.is_away = True
        self.link.cut()
        threading.Event().wait(self.dice.random() * 0.5)
        self.link.is_away = False

    def _fill_disk(self) -> None:
        filler = self.volume / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as out:
            while out.write(bytes(1 << 16)) == 1 << 16:
                pass
        threading.Event().wait(self.dice.random() * 0.5)
        filler.unlink()

    def _jump_clock(self) -> None:
        seconds = self.dice.choice((-86_400 * 365, -3600, 60, 86_400 * 365))
        with self.shift.open("r+b") as file:
            file.write(struct.pack("l", seconds))

    def _store_words(self) -> tuple[str, ...]:
        token, listen = str(self.folder / "token"), f"127.0.0.1:{self.port}"
        return (
            "fairlead",
            "serve",
            "store",
            "--root",
            str(self.root),
            "--token-file",
            token,
            "--listen",
            listen,
        )

    def _worker_words(self, name: str) -> tuple[str, ...]:
        is_pod = name == "pod"
        port = self.port if is_pod else self.link.address[1]
        spec = {
            "name": name,
            "site": name,
            "folder": str(self.folder / name),
            "url": f"http://127.0.0.1:{port}/",
            "token": TOKEN,
            "job": self.job,
            "root": str(self.root) if is_pod else "",
            "seconds": "0.01" if is_pod else "0.03",
        }
        return ("tests.splitfaults.worker", json.dumps(spec))

    def _build_clock(self) -> None:
        if COMPILER is None:
            return
        source, library = Path(__file__).parent / "clock.c", self.folder / "clock.so"
        words = (COMPILER, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl")
        if subprocess.run(words, capture_output=True, check=False).returncode == 0:
            self.environ |= {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(self.shift)}


@contextmanager
def world(folder: Path, seed: int, inputs: int) -> Iterator[World]:
    """Yield a world with a job that runs; on a volume of its own where that may be mounted."""
    with _volume(folder / "volume") as disk:
        made = World(folder, random.Random(seed), inputs, disk)
        try:
            made.start("store")
            made.ask("GET", "")
            made.submit()
            made.start("device")
            made.start("pod")
            yield made
        finally:
            made.close()


@contextmanager
def _volume(place: Path) -> Iterator[bool]:
    """Mount a small volume, where this user may."""
    place.mkdir()
    mounted = os.geteuid() == 0 and _run("mount", "-t", "tmpfs", "-o", f"size={_SPACE}", "tmpfs", str(place))
    try:
        yield mounted
    finally:
        if mounted:
            _run("umount", "-l", str(place))


def _run(*words: str) -> bool:
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def faults(made: World) -> list[str]:
    """Return what can be done to a world."""
    kinds = ["kill_device", "kill_pod", "kill_store", "cut_link"]
    kinds += ["fill_disk"] if made.disk else []
    return kinds + (["jump_clock"] if "LD_PRELOAD" in made.environ else [])
