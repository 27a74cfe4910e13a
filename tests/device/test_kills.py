"""kill -9 of what queues and of what sends: every upload whose `put` returned arrives, whole and in order."""

import hashlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.device.place import DevicePlace
from fairlead.device.queue import UploadQueue
from fairlead.device.report import DeviceReport, save_report
from fairlead.device.session import StoreAddress, join
from fairlead.invite import mint_invite, parse_key
from fairlead.store.settings import StoreFiles
from tests.device.kill_worker import content_of
from tests.store.stores import store

KEY = "the key of a session of tests"
REPORT = DeviceReport("pi", {"cores": 4, "accelerators": []}, {"free_bytes": 1, "size_bytes": 2})
LONG = os.environ.get("FAIRLEAD_CHAOS") == "long"
SEEDS = range(50 if LONG else 2)
ROUNDS = 3
HOUSE = Path(__file__).parents[2]


@contextmanager
def killed(*words: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a program while the block runs, then kill it with the signal that it cannot handle."""
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=HOUSE
    )
    with process:  # waits for it, and closes the pipe
        try:
            yield process
        finally:
            process.kill()


def queue_until_killed(folder: Path, seed: int, first: int, chance: random.Random) -> int:
    """Queue some uploads, kill the program at any moment after; return the next number."""
    count, last = chance.randint(2, 12), first
    with killed("-m", "tests.device.kill_worker", str(folder), str(seed), str(first)) as worker:
        assert worker.stdout is not None
        for _ in range(count):
            last = int(worker.stdout.readline().split()[0])
        time.sleep(chance.random() * 0.02)  # somewhere in the next upload
        worker.kill()
        for line in worker.stdout:  # also queued before the kill
            last = int(line.split()[0])
    return last + 1


def send_until_killed(place: DevicePlace, chance: random.Random) -> None:
    """Run the agent until it has sent some uploads, and kill it at any moment after."""
    with UploadQueue(place) as queue:
        wanted = chance.randint(1, len(queue.uploads()))
    with killed("-m", "fairlead", "device", "sync", "--follow") as agent:
        assert agent.stdout is not None
        for line in agent.stdout:
            wanted -= line.startswith("sent ")
            if wanted <= 0:
                break
        time.sleep(chance.random() * 0.02)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_queued_arrives(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "device"))
    (tmp_path / "key").write_text(KEY)
    chance, number = random.Random(seed), 0
    with store(tmp_path, StoreFiles(invite_key=str(tmp_path / "key"))) as served:
        place = DevicePlace.of(os.environ, "pi")
        invite = mint_invite(parse_key(KEY), time.time() + 600)
        join(place, StoreAddress(served.url.rstrip("/"), ""), invite, REPORT, {})
        save_report(place, REPORT)
        for _ in range(ROUNDS):
            number = queue_until_killed(tmp_path, seed, number, chance)
            send_until_killed(place, chance)
        assert main(["device", "sync", "--retry"]) == 0
        with UploadQueue(place) as queue:
            assert (queue.uploads(), queue.conflicts(), queue.sweep()) == ([], [], 0)
        assert os.listdir(place.spool) == []
        stored = {name: hashlib.sha256(content).hexdigest() for name, content in served.files().items()}
    assert "conflict" not in capsys.readouterr().out
    queued = {f"p{each % 7}": each for each in range(number)}
    # An upload that was queued when the program was killed may be there although it was not said.
    expected = {
        path: {digest(seed, each), digest(seed, number) if number % 7 == each % 7 else digest(seed, each)}
        for path, each in queued.items()
    }
    assert {path: stored[path] in digests for path, digests in expected.items()} == dict.fromkeys(
        expected, True
    )


def digest(seed: int, number: int) -> str:
    """Return the checksum of an upload's content."""
    return hashlib.sha256(content_of(seed, number)).hexdigest()
