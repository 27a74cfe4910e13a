"""kill -9 in the middle of uploads: every acknowledged one is there afterwards, whole, with its checksum.

Three seeded runs, and 200 with FAIRLEAD_CHAOS=long.
"""

import base64
import hashlib
import http.client
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.store.stores import TOKEN

RUNS = 200 if os.environ.get("FAIRLEAD_CHAOS") == "long" else 3
NAMES = ("a", "b", "c", "d")


@contextmanager
def program(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Yield a store as a program of its own, and its port; it is killed at the end."""
    words = (
        "serve",
        "store",
        "--root",
        str(folder),
        "--token-file",
        f"{folder}.token",
        "--listen",
        "127.0.0.1:0",
    )
    child = subprocess.Popen(
        (sys.executable, "-m", "fairlead", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert child.stdout is not None
        yield child, int(child.stdout.readline().strip().rstrip("/").rpartition(":")[2])
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


class Uploader(threading.Thread):
    """Uploads files of its own until the store is gone."""

    def __init__(self, port: int, seed: str, prefix: str) -> None:
        super().__init__()
        self._port, self._dice, self._prefix = port, random.Random(seed), prefix
        self.acknowledged: dict[str, bytes] = {}
        self.sent: dict[str, bytes] = {}
        """The last upload of each name, acknowledged or not."""
        self.count = 0

    def run(self) -> None:
        """Upload."""
        try:
            while True:
                self._upload()
        except (OSError, http.client.HTTPException):
            return

    def _upload(self) -> None:
        name = f"{self._prefix}-{self._dice.choice(NAMES)}"
        data = self._dice.randbytes(self._dice.choice((10, 10_000, 1_000_000)))
        self.sent[name] = data
        body = data if self._dice.random() < 0.5 else iter([data[:5000], data[5000:]])
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)) as connection:
            connection.request("PUT", f"/{name}", body, {"Authorization": f"Bearer {TOKEN}"})
            if connection.getresponse().status in (201, 204):
                self.acknowledged[name] = data
                self.count += 1


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_killed_store_has_every_acknowledged_upload(tmp_path: Path, seed: int) -> None:
    folder = tmp_path / "root"
    folder.mkdir()
    (tmp_path / "root.token").write_text(TOKEN)
    dice = random.Random(seed)
    with program(folder) as (child, port):
        uploaders = [Uploader(port, f"{seed} {number}", str(number)) for number in range(3)]
        for each in uploaders:
            each.start()
        until = dice.randrange(1, 40)
        while sum(each.count for each in uploaders) < until:
            threading.Event().wait(dice.random() / 100)
        child.kill()
        for each in uploaders:
            each.join()
    with program(folder) as (_, port):
        for each in uploaders:
            for name, last in each.sent.items():
                check(port, name, each.acknowledged.get(name), last)
        assert os.listdir(folder / ".fairlead" / "staging") == []


def check(port: int, name: str, acknowledged: bytes | None, last: bytes) -> None:
    """Check a file: the acknowledged one, or the one that was sent after it, whole as well."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", f"/{name}", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        data = answer.read()
        if answer.status == 404 and acknowledged is None:
            return
        assert answer.status == 200
        assert data in (acknowledged, last)
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        assert answer.headers["Repr-Digest"] == f"sha-256=:{digest}:"
