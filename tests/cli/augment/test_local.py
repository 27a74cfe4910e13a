"""`fairlead augment --local`: a session from its creation to its end, with a device and an application."""

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairlead.augment.control import keeper_process, stop_keeper
from fairlead.augment.place import SessionPlace, session_names
from fairlead.augment.visit import read_report
from fairlead.cli.main import main

APPLICATION = """import os, time
with open(os.environ["FAIRLEAD_DATA"] + "/made", "w") as file:
    file.write("by the application")
time.sleep(600)
"""


@dataclass
class LocalWorld:
    """Commands of one user on one machine."""

    folder: Path
    capture: pytest.CaptureFixture[str]

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run fairlead; return its code and what it printed."""
        self.capture.readouterr()
        code = main(list(words))
        out = self.capture.readouterr()
        return code, out.out, out.err

    def ok(self, *words: str) -> str:
        """Run a command that succeeds, and return its output."""
        code, out, err = self.run(*words)
        assert code == 0, err + out
        return out

    def place(self) -> SessionPlace:
        """Return the place of the session."""
        return SessionPlace.of(os.environ, "shop")

    def until(self, name: str) -> None:
        """Wait until the data has a file."""
        path, end = Path(self.place().data, name), time.monotonic() + 60
        while not path.exists() or not path.read_bytes():
            assert time.monotonic() < end, self.run("augment", "show", "shop", "--local")
            time.sleep(0.02)


@pytest.fixture
def world(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[LocalWorld]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("FAIRLEAD_STATE", str(tmp_path / "jobs"))
    monkeypatch.chdir(tmp_path)
    yield LocalWorld(tmp_path, capsys)
    for name in session_names(os.environ):
        main(["augment", "delete", name, "--local", "--delete-data"])


def test_a_session_from_its_creation_to_its_end(world: LocalWorld) -> None:
    (world.folder / "app.py").write_text(APPLICATION)
    create = ("augment", "create", "shop", "--local", "--device", "pi", "--size", "64Mi")
    out = world.ok(*create, "--command", "python3 app.py")
    assert "session shop for pi: 64 MiB at https://127.0.0.1:" in out
    world.until("made")
    invite = json.loads(world.ok("augment", "invite", "shop", "--local", "-o", "json"))
    join = (
        "device",
        "join",
        invite["url"],
        "--token",
        invite["token"],
        "--fingerprint",
        invite["fingerprint"],
    )
    assert "of session shop as pi" in world.ok(*join, "--command", "python3 app.py")
    assert world.ok("device", "get", "made") == "fetched made, 18 B\n"
    (world.folder / "result").write_bytes(b"1" * 1_000_000)
    world.ok("device", "put", "result")
    assert Path(world.place().data, "result").stat().st_size == 1_000_000
    document = json.loads(world.ok("augment", "show", "shop", "--local", "-o", "json"))
    assert {each["type"]: each["status"] for each in document["conditions"]} == dict.fromkeys(
        ("StoreServes", "DeviceJoined", "ApplicationRuns", "SameApplication"), True
    )
    (world.folder / "app.py").write_text(APPLICATION + "# another version\n")
    world.ok("device", "sync")
    assert "SameApplication: no, the device has sha256:" in world.ok("augment", "show", "shop", "--local")
    assert "64 MiB" in world.ok("augment", "list", "--local")
    assert (
        world.ok("augment", "jobs")
        == world.ok("augment", "jobs", "--session", "shop", "--local")
        == "no jobs\n"
    )
    out = world.ok("augment", "delete", "shop", "--local")
    assert f"its data stays in {world.place().data}" in out
    assert world.ok("augment", "list", "--local") == "no sessions\n"
    assert json.loads(world.ok("ps", "-o", "json"))["jobs"] == []
    assert sorted(os.listdir(world.place().folder)) == ["data"]
    world.ok(*create)
    assert Path(world.place().data, "result").stat().st_size == 1_000_000
    world.ok("augment", "delete", "shop", "--local", "--delete-data")
    assert not os.path.exists(world.place().folder)


def test_a_session_is_resized_rotated_and_survives_the_end_of_its_programs(world: LocalWorld) -> None:
    create = ("augment", "create", "shop", "--local", "--device", "pi", "--size", "2Mi")
    world.ok(*create)
    invite = json.loads(world.ok("augment", "invite", "shop", "--local", "-o", "json"))
    world.ok(
        "device", "join", invite["url"], "--token", invite["token"], "--fingerprint", invite["fingerprint"]
    )
    (world.folder / "big").write_bytes(b"1" * 3_000_000)
    code, out, _ = world.run("device", "put", "big")
    assert (code, "waiting big: the store's quota is used up" in out) == (0, True)
    assert "4.0 MiB" in world.ok("augment", "resize", "shop", "4Mi", "--local")
    assert "sent big" in world.ok("device", "sync", "--retry")
    code, _, err = world.run("augment", "resize", "shop", "1Mi", "--local")
    assert (code, "1.0 MiB is less than the 2.9 MiB that are used" in err) == (2, True)
    code, _, err = world.run("augment", "resize", "shop", "3Mi", "--local", "--reclaim")
    assert (code, "--reclaim: a session of this machine has a folder" in err) == (2, True)
    assert "next report: pi" in world.ok("augment", "rotate", "shop", "--local")
    before = Path(os.environ["XDG_STATE_HOME"], "fairlead/devices/pi/membership.json").read_text()
    assert "the credential was rotated" in world.ok("device", "sync")
    assert Path(os.environ["XDG_STATE_HOME"], "fairlead/devices/pi/membership.json").read_text() != before
    keeper = keeper_process(world.place())
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGKILL)
    stop_keeper(world.place())  # returns once it has ended
    code, out, _ = world.run("augment", "show", "shop", "--local")
    assert (code, "stopped: `fairlead augment create shop --local` starts it again" in out) == (1, True)
    code, _, err = world.run(*create)
    assert (code, "resize shop SIZE --local" in err) == (2, True)
    world.ok(*create[:-1], "4Mi")
    assert read_report(world.place(), world.place().read()) is not None
    assert world.ok("device", "get", "big", "back") == "fetched big, 2.9 MiB\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--size", "0"], "--size 0: nothing could be stored"),
        (["--size", "some"], "'some' is not an amount"),
        (["--size", "1Gi", "--fast", "1Mi"], "two tiers need both"),
        (["--size", "1Gi", "--fast", "2Gi", "--slow", "x"], "--fast 2Gi is more than --size 1Gi"),
        (["--size", "1Gi", "--command", "no-such-program"], "no-such-program"),
        (["--size", "1Gi", "--gpu-mem", "1Gi"], "needs an application"),
        (["--size", "1Gi", "--image", "app:1"], "with --local the application is a --command"),
        (["--size", "1Gi", "--env", "x", "--command", "true"], "not NAME=VALUE"),
        (["--size", "1Gi", "--listen", "nowhere"], "is not an address"),
        (["--size", "1Gi", "--listen", "192.0.2.1:0"], "name an address of this machine"),
    ],
)
def test_nonsense_is_one_clear_line_and_nothing_is_left(
    world: LocalWorld, words: list[str], reason: str
) -> None:
    code, out, err = world.run("augment", "create", "shop", "--local", "--device", "pi", *words)
    assert (code, out) == (2, "")
    assert reason in err
    assert world.ok("augment", "list", "--local") == "no sessions\n"


def test_an_unknown_session_is_one_line(world: LocalWorld) -> None:
    for words in (["show", "x"], ["delete", "x"], ["resize", "x", "1Gi"], ["rotate", "x"], ["invite", "x"]):
        code, _, err = world.run("augment", *words, "--local")
        assert (code, "no session x on this machine" in err) == (2, True)
    code, _, err = world.run("augment", "invite", "--local")
    assert (code, "needs a session alone" in err) == (2, True)
    code, _, err = world.run("augment", "create", "x", "--local", "--device", "Pi 4", "--size", "1Gi")
    assert (code, "is not a name" in err) == (2, True)


def test_a_session_with_two_tiers_serves_files_of_both(world: LocalWorld) -> None:
    slow = world.folder / "slow"
    tiers = ("--size", "64Mi", "--fast", "1Mi", "--slow", str(slow))
    world.ok("augment", "create", "shop", "--local", "--device", "pi", *tiers)
    invite = json.loads(world.ok("augment", "invite", "shop", "--local", "-o", "json"))
    world.ok(
        "device", "join", invite["url"], "--token", invite["token"], "--fingerprint", invite["fingerprint"]
    )
    for number in range(3):
        (world.folder / "file").write_bytes(bytes([number]) * 700_000)
        world.ok("device", "put", "file", "--to", f"f{number}")
    end = time.monotonic() + 60
    while not any(path.is_file() for path in slow.rglob("f*")):  # more than the fast tier holds
        assert time.monotonic() < end, (world.folder / "state/fairlead/sessions/shop/tier.log").read_text()
        time.sleep(0.05)
    for number in range(3):
        world.ok("device", "get", f"f{number}", "back")
        assert (world.folder / "back").read_bytes() == bytes([number]) * 700_000
    code, _, err = world.run("augment", "resize", "shop", "64Mi", "--fast", "65Mi", "--local")
    assert (code, "is more than 64 MiB" in err) == (2, True)
    world.ok("augment", "resize", "shop", "64Mi", "--fast", "100Ki", "--local")
    while fast_files(world.place().data):  # no file fits any more
        assert time.monotonic() < end, (world.folder / "state/fairlead/sessions/shop/tier.log").read_text()
        time.sleep(0.05)
    world.ok("augment", "delete", "shop", "--local", "--delete-data")
    assert not slow.exists()


def fast_files(data: str) -> list[str]:
    """Return the files that are on the fast tier."""
    paths = (Path(data) / f"f{number}" for number in range(3))
    return [path.name for path in paths if not path.is_symlink()]


def test_programs_read_what_was_changed(world: LocalWorld) -> None:
    world.ok("augment", "create", "shop", "--local", "--device", "pi", "--size", "2Mi")
    resized = json.loads(world.ok("augment", "resize", "shop", "3Mi", "--local", "-o", "json"))
    assert resized["size_bytes"] == 3 << 20
    assert json.loads(world.ok("augment", "rotate", "shop", "--local", "-o", "json"))["ready"]
    code, _, err = world.run("augment", "resize", "shop", "3Mi", "--fast", "1Mi", "--local")
    assert (code, "has one tier" in err) == (2, True)
    deleted = json.loads(world.ok("augment", "delete", "shop", "--local", "-o", "json"))
    assert deleted == {"augmentation": "shop", "deleted": True, "kept_data": [world.place().data]}
