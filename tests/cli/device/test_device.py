"""`fairlead device` from the invite to the end, against a small store over TLS."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.invite import mint_admin, mint_invite
from tests.device.store import KEY, BytesContent, FakeStore, certificate, disconnect_after, joinable, serving


@dataclass
class CommandWorld:
    """A store over TLS, and commands of a device."""

    folder: Path
    store: FakeStore
    fingerprint: str
    capture: pytest.CaptureFixture[str]

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run `fairlead device ...`; return its code and what it printed."""
        self.capture.readouterr()
        code = main(["device", *words])
        out = self.capture.readouterr()
        return code, out.out, out.err

    def ok(self, *words: str) -> str:
        """Run a command that succeeds, and return its output."""
        code, out, err = self.run(*words)
        assert code == 0, err
        return out

    def join(self, *words: str, device: str = "pi") -> tuple[int, str, str]:
        """Join."""
        token = mint_invite(KEY, time.time() + 60, device)
        url, pin = self.store.url + "/", f"sha256:{self.fingerprint}"
        return self.run("join", url, "--token", token, "--fingerprint", pin, *words)

    def file(self, name: str, content: bytes) -> str:
        """Write a file, and return its path."""
        (self.folder / name).write_bytes(content)
        return str(self.folder / name)


@pytest.fixture
def world(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[CommandWorld]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    files, fingerprint = certificate(tmp_path, "store")
    with serving(joinable(tmp_path / "state"), files) as store:
        yield CommandWorld(tmp_path, store, fingerprint, capsys)


def test_a_device_from_its_invite_to_its_end(world: CommandWorld) -> None:
    script = world.file("app.py", b"print(1)\n")
    code, out, err = world.join("--command", f"python3 {script}")
    assert (code, err) == (0, "")
    assert f"joined {world.store.url} of session shop as pi" in out
    assert "link: " in out
    assert "application: sha256:" in out
    assert world.ok("put", world.file("a.bin", b"1" * 100_000)) == "queued a.bin, 98 KiB\nsent a.bin\n"
    (world.folder / "run").mkdir()
    for name in ("run/x", "run/y"):
        world.file(name, name.encode())
    assert world.ok("put", "-r", "run", "--to", "out/").splitlines() == ["sent out/run/x", "sent out/run/y"]
    assert world.store.files["out/run/y"] == b"run/y"
    listed = [each["path"] for each in json.loads(world.ok("ls", "-o", "json"))["entries"]]
    assert listed == ["a.bin", "out/run/x", "out/run/y"]
    assert world.ok("get", "out/run/x", "fetched") == "fetched out/run/x, 5 B\n"
    assert (world.folder / "fetched").read_bytes() == b"run/x"
    assert "no longer valid" in world.ok("rotate")
    document = json.loads(world.ok("status", "-o", "json"))["devices"][0]
    assert (document["session"], document["queue"]["waiting"], document["agent"]) == ("shop", 0, False)
    assert document["report"]["digest"].startswith("sha256:")
    assert "device sync --follow --name pi" in world.ok("unit")
    assert world.ok("leave") == "device pi has left its session\n"
    assert world.store.registry is not None
    assert world.store.registry.devices()[0].revoked == "the device left the session"
    assert list((world.folder / "home/fairlead/devices").iterdir()) == []


def test_what_is_queued_offline_is_sent_later(world: CommandWorld) -> None:
    world.join()
    world.store.faults = [disconnect_after(0)]
    code, out, err = world.run("put", world.file("a", b"1"), "--to", "b")
    assert (code, out) == (0, "queued b, 1 B\n")
    assert "the store cannot be reached" in err
    assert "1 queued: `fairlead device sync` sends them later" in err
    assert "  waits b, 1 B" in world.ok("status")
    assert world.ok("sync") == "sent b\nthe store is reached again\nthe queue is empty\n"
    assert world.store.files == {"b": b"1"}


def test_both_versions_are_kept_and_named(world: CommandWorld) -> None:
    world.join()
    world.store.files["a.txt"] = b"theirs"
    out = world.ok("put", world.file("a.txt", b"mine"))
    assert "conflict a.txt: the store has another version; this device's is kept as a.conflict-pi-" in out
    assert sorted(world.store.files.values()) == [b"mine", b"theirs"]
    assert "conflict: a.txt: this device's version is a.conflict-pi-" in world.ok("status")
    world.ok("get", "a.txt")
    assert (world.folder / "a.txt").read_bytes() == b"theirs"
    world.ok("put", world.file("a.txt", b"merged"))
    assert world.store.files["a.txt"] == b"merged"


Words = Callable[[CommandWorld], list[str]]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (lambda _: ["status"], "no device is joined here"),
        (lambda _: ["put", "x"], "no device is joined here"),
        (lambda _: ["get", "x", "--name", "other"], "no device 'other' is joined here"),
        (lambda w: ["join", w.store.url, "--token", "x"], "cannot be checked without its fingerprint"),
        (
            lambda w: ["join", w.store.url, "--token", "x", "--fingerprint", "0" * 64],
            "the store shows another certificate than the pinned one: sha256:",
        ),
        (
            lambda w: ["join", w.store.url, "--token", "x", "--fingerprint", w.fingerprint],
            "the store refuses the join: this is no invite",
        ),
        (lambda _: ["join", "http://example.org", "--token", "x"], "without TLS the token could be read"),
        (lambda _: ["join", "https://x", "--token", "x", "--fingerprint", "12"], "is not a fingerprint"),
        (
            lambda w: ["join", w.store.url, "--token", "x", "--fingerprint", "0" * 64, "--name", "A b"],
            "is not a name of a device",
        ),
        (
            lambda w: ["join", w.store.url, "--token", "x", "--fingerprint", "0" * 64, "--image", "x:1"],
            "names no digest of an image",
        ),
    ],
)
def test_nonsense_is_one_clear_line_and_a_hint(world: CommandWorld, words: Words, reason: str) -> None:
    code, out, err = world.run(*words(world))
    assert (code, out) == (2, "")
    assert reason in err
    assert len(err.splitlines()) == 2
    assert err.startswith("fairlead: ")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["put", "nothing"], "nothing: it cannot be queued: No such file or directory"),
        (["put", "folder"], "folder: it is a folder"),
        (["put", "file", "--to", "../x"], "is not a path in the store"),
        (["put", "file", "--to", ".fairlead/x"], "/.fairlead is the store's own"),
        (["get", "nothing"], "nothing: the store has no such file"),
        (["get", "file", "nowhere/x"], "the store has no such file"),
    ],
)
def test_nonsense_after_joining_loses_nothing(world: CommandWorld, words: list[str], reason: str) -> None:
    world.join()
    (world.folder / "folder").mkdir()
    world.file("file", b"1")
    code, _, err = world.run(*words)
    assert code in (1, 2)
    assert reason in err
    assert "  waits" not in world.ok("status")


def test_a_revoked_credential_is_one_line_and_the_queue_is_kept(world: CommandWorld) -> None:
    world.join()
    assert world.store.protocol is not None
    world.store.protocol.handle("POST", "revoke", mint_admin(KEY, time.time() + 60), BytesContent())
    code, out, err = world.run("put", world.file("a", b"1"))
    assert (code, "waiting a" in out) == (0, True)
    assert "the store refuses this device's credential" in err
    code, _, err = world.run("sync")
    assert (code, "join again" in err) == (2, True)
    code, _, err = world.run("leave")
    assert (code, "1 upload waits in the queue" in err) == (2, True)
    world.join()
    assert "sent a" in world.ok("sync")


def test_several_devices_need_a_name(world: CommandWorld) -> None:
    world.join()
    world.join(device="jetson")
    code, _, err = world.run("put", "x")
    assert (code, "add --name with one of jetson, pi" in err) == (2, True)
    world.ok("put", world.file("a", b"1"), "--name", "jetson")
    assert world.ok("status").count("device ") >= 2


def test_uploads_for_one_session_are_not_sent_to_another(world: CommandWorld, tmp_path: Path) -> None:
    world.join()
    world.ok("put", world.file("a", b"1"), "--queue-only")
    code, _, err = world.run(
        "join", "https://127.0.0.1:1", "--token", "x", "--fingerprint", "0" * 64, "--name", "pi"
    )
    assert code == 2
    assert f"1 upload of device pi wait for {world.store.url}" in err
