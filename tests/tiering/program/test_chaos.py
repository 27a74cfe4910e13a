"""The program under SIGKILL at any time, beside one that writes, replaces, renames and deletes files.

`make test` plays one seed, `make test-chaos` 200; FAIRLEAD_CHAOS_SEED=N begins at another one.
"""

import os
import time
from pathlib import Path
from random import Random

import pytest

from tests.tiering.program.programs import Served
from tests.tiering.volumes.pairs import Volumes

LONG = os.environ.get("FAIRLEAD_CHAOS") == "long"
FIRST = int(os.environ.get("FAIRLEAD_CHAOS_SEED", "1"))
SEEDS = range(FIRST, FIRST + (200 if LONG else 1))
KEYS = [f"{folder}file-{number}" for folder in ("", "a/", "a/b/") for number in range(8)]


class Application:
    """A program that knows what each of its files must contain."""

    def __init__(self, fast: Path, random: Random) -> None:
        self.fast = fast
        self.random = random
        self.contents: dict[str, bytes] = {}

    def act(self) -> None:
        """Do one thing with one file, and check what it reads."""
        key = self.random.choice(KEYS)
        path = self.fast / key
        path.parent.mkdir(parents=True, exist_ok=True)
        acts = ("read", "read", "write", "replace", "append", "delete", "rename")
        act = self.random.choice(acts) if key in self.contents else "write"
        if act == "read":
            assert path.read_bytes() == self.contents[key], key
        elif act in ("write", "replace"):
            content = self.random.randbytes(self.random.choice((0, 10, 3000, 200_000)))
            new = path if act == "write" else path.with_name(f".{path.name}.new")
            new.write_bytes(content)
            new.replace(path)
            self.contents[key] = content
        elif act == "append":
            with path.open("ab") as file:
                file.write(b"more")
            self.contents[key] += b"more"
        elif act == "delete":
            path.unlink()
            del self.contents[key]
        else:
            other = self.random.choice(KEYS)
            (self.fast / other).parent.mkdir(parents=True, exist_ok=True)
            path.rename(self.fast / other)
            self.contents[other] = self.contents.pop(key)

    def check(self) -> None:
        """Check that every file is there, whole, and no other one."""
        for key, content in self.contents.items():
            assert (self.fast / key).read_bytes() == content, key
        for key in set(KEYS) - set(self.contents):
            assert not os.path.lexists(self.fast / key), key


@pytest.mark.parametrize("seed", SEEDS)
def test_no_byte_is_lost(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    volumes = Volumes(tmp_path)
    application = Application(volumes.fast, random)
    for _ in range(3):
        policy = random.choice(("lru", "s3-fifo", "arc", "lru-ghost", "2q"))
        served = Served(volumes, tmp_path / "log", "--policy", policy, capacity="500KB")
        end = time.monotonic() + random.uniform(0.5, 3.0)
        while time.monotonic() < end:
            application.act()
            if random.random() < 0.2:
                time.sleep(random.uniform(0, 0.05))
        served.kill()
        application.check()
        for _ in range(random.randrange(20)):
            application.act()  # while no mover runs
    served = Served(volumes, tmp_path / "log", capacity="500KB")
    served.wait(served.has_written)
    application.check()
    assert served.stop() == 0
    application.check()
    assert list(volumes.fast.rglob("*.other-*")) == [], served.log()
