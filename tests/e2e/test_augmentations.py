"""An Augmentation on a real node: created, used, rotated, resized, deleted; every byte compared."""

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.units import parse_quantity
from tests.e2e.api import wait_for
from tests.e2e.augmentations import GROWS, NAME, STAYS, LentSlice, expected, kind_installed
from tests.e2e.schedulers import running_scheduler
from tests.e2e.test_pipelines import assert_confined
from tests.labs import RealNode
from tests.pipelineobjects.operated import operator

Command = Callable[..., str]
FILES = {f"/file-{number}": 300_000 + number for number in range(3)}


@pytest.fixture
def lent(real_node: RealNode, node_namespace: str, tmp_path: Path) -> Iterator[LentSlice]:
    """Return a namespace of a node that has the kind, the image, volumes and our scheduler."""
    with kind_installed(real_node), running_scheduler(real_node):
        yield LentSlice(real_node, node_namespace, tmp_path)


def put_files(lent: LentSlice, token: str) -> None:
    for path, size in FILES.items():
        assert lent.device("PUT", path, token, size)["status"] in (201, 204)


def compare_files(lent: LentSlice, token: str) -> None:
    for path, size in FILES.items():
        answer = lent.device("GET", path, token)
        assert (answer["status"], answer.get("sha256")) == (200, expected(size, path)), answer


def test_a_slice_is_lent_used_resized_and_taken_back(
    lent: LentSlice, real_node: RealNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(verb: str, *more: str) -> str:
        code = main(["augment", verb, NAME, *more, *lent.where])
        out, err = capsys.readouterr()
        assert code == 0, (out, err, lent.story())
        return out

    program = (
        "from pathlib import Path; import os, signal, sys, time\nfolder = Path(os.environ['FAIRLEAD_DATA'])\n"
    )
    program += "signal.signal(signal.SIGTERM, lambda *_: sys.exit())\n"
    program += "while True: (folder / 'seen').write_text(str(len(list(folder.iterdir())))); time.sleep(0.1)"
    application = ("--image", "localhost/fairlead-store:0.1.0", "--command", f'python3 -c "{program}"')
    with operator(real_node, lent.namespace, tmp_path / "operator.log"):
        sized = ("--device", "camera-7", "--size", "64Mi", "--class", GROWS)
        command("create", *sized, *application, "--wait", "--timeout", "60s")
        (token,) = lent.tokens()
        put_files(lent, token)
        compare_files(lent, token)
        assert lent.device("GET", "/file-0", "wrong")["status"] == 401
        wait_for("the application to see them", lambda: "seen" in str(list(lent.volume().rglob("seen"))))
        volume = lent.volume()
        rotate(lent, command)
        token = lent.tokens()[0]
        resize(lent, command, token, capsys)
        replace_store(lent)
        compare_files(lent, token)
        assert_confined(lent.process("store"))
        assert_confined(lent.process("application"))
        invite = json.loads(command("invite", "-o", "json"))
        assert invite["fingerprint"] == lent.resource()["status"]["fingerprint"]

        command("delete", "--wait", "--timeout", "60s")
        assert lent.left() == ["cam-data"], "the data stays"
        command("create", *sized, "--wait", "--timeout", "60s")
        assert lent.volume() == volume
        token = lent.tokens()[0]
        compare_files(lent, token)
        command("delete", "--delete-data", "--wait", "--timeout", "60s")
        wait_for("nothing to be left", lambda: lent.left() == [], lent.story)
        wait_for("the volume to go", lambda: not volume.exists(), lent.story)


@pytest.mark.skipif(os.environ.get("FAIRLEAD_CHAOS") != "long", reason="half a minute: FAIRLEAD_CHAOS=long")
def test_a_device_joins_and_its_files_move_between_tiers_and_outlive_a_restart(
    lent: LentSlice, real_node: RealNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(verb: str, *more: str) -> str:
        code = main(["augment", verb, NAME, *more, *lent.where])
        out, err = capsys.readouterr()
        assert code == 0, (out, err, lent.story())
        return out

    with operator(real_node, lent.namespace, tmp_path / "operator.log"):
        tiers = ("--size", "64Mi", "--fast", "1Mi", "--class", GROWS, "--class", STAYS)
        command("create", "--device", "camera-7", *tiers, "--wait")
        (token,) = lent.tokens()
        large = {f"/large-{number}": 700_000 for number in range(3)}
        for path, size in large.items():
            assert lent.device("PUT", path, token, size)["status"] == 201
        invite = json.loads(command("invite", "-o", "json"))
        pin = ("--token", invite["token"], "--fingerprint", invite["fingerprint"])
        lent.join(invite["url"], *pin)
        lent.wait_until("DeviceJoined", "True Joined: camera-7 has joined")
        fast = lent.volume("cam-fast") / "files"
        wait_for(
            "files to move to the slow tier",
            lambda: sum((fast / path[1:]).is_symlink() for path in large) >= 2,
            lent.story,
        )
        real_node.restart("kubelet", kill=True)
        os.kill(lent.process("store"), signal.SIGKILL)
        wait_for("the store to be started again", lambda: lent.restarts("store") > 0, lent.story)
        lent.wait_until("Ready", "True")
        for path, size in large.items():
            assert lent.device("GET", path, token).get("sha256") == expected(size, path)
        command("resize", "80Mi")
        lent.wait_until("Sized", "False CannotGrow: claim cam-data cannot grow from 64Mi to 80Mi")
        command("delete", "--delete-data", "--wait")
        wait_for("nothing to be left", lambda: lent.left() == [], lent.story)


@pytest.mark.skipif(os.environ.get("FAIRLEAD_CHAOS") != "long", reason="two minutes: FAIRLEAD_CHAOS=long")
def test_the_data_moves_to_a_smaller_claim_while_files_are_written(
    lent: LentSlice, real_node: RealNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(verb: str, *more: str) -> str:
        code = main(["augment", verb, NAME, *more, *lent.where])
        out, err = capsys.readouterr()
        assert code == 0, (out, err, lent.story())
        return out

    log = tmp_path / "operator.log"
    with operator(real_node, lent.namespace, log):
        command(
            "create", "--device", "camera-7", "--size", "64Mi", "--class", GROWS, "--wait", "--timeout", "60s"
        )
        (token,) = lent.tokens()
        put_files(lent, token)
        old = lent.volume()
        wait_for("the use to be known", lambda: "used" in lent.resource()["status"], lent.story)
        with writing(lent, token) as written:
            wait_for("some files", lambda: len(written) > 3)
            command("resize", "32Mi", "--reclaim")
            wait_for(
                "the freeze",
                lambda: "frozenSince" in (lent.resource()["status"].get("reclaim") or {}),
                lent.story,
            )
        # Another operator goes on from what it finds.
    with operator(real_node, lent.namespace, log), writing(lent, token) as later:
        lent.wait_until("Reclaimed", "True Done")
        wait_for("more files", lambda: len(later) > 3, lent.story)
    with operator(real_node, lent.namespace, log):
        lent.wait_until("Ready", "True")
        assert lent.claim("cam-data-2")["status"]["capacity"]["storage"] == "32Mi"
        wait_for("the old volume to go", lambda: not old.exists(), lent.story)
        compare_files(lent, token)
        files = lent.volume("cam-data-2") / "files"
        for path, length in {**written, **later}.items():
            assert hashlib.sha256((files / path[1:]).read_bytes()).hexdigest() == expected(length, path)
        assert lent.resource()["status"]["reclaim"]["freezeSeconds"] < 120
        assert main(["augment", "resize", NAME, "1Mi", "--reclaim", *lent.where]) == 2
        command("delete", "--delete-data", "--wait", "--timeout", "60s")
        wait_for("nothing to be left", lambda: lent.left() == [], lent.story)


@contextmanager
def writing(lent: LentSlice, token: str) -> Iterator[dict[str, int]]:
    """Write files during the block; yield those that the store has acknowledged."""
    written: dict[str, int] = {}
    ended, begin = threading.Event(), time.monotonic_ns()

    def write() -> None:
        while not ended.is_set():
            path = f"/load-{begin}-{len(written)}"
            with suppress(AssertionError):  # the store is replaced, and nobody answers
                if lent.device("PUT", path, token, 20_000)["status"] == 201:
                    written[path] = 20_000

    load = threading.Thread(target=write)
    load.start()
    try:
        yield written
    finally:
        ended.set()
        load.join()


def rotate(lent: LentSlice, command: Command) -> None:
    """Rotate the token: both are accepted, and the store is the same process."""
    (old,) = lent.tokens()
    before = lent.pod("store")["metadata"]["uid"]
    command("rotate", "--wait")
    new, previous = lent.tokens()
    assert previous == old
    wait_for(
        "the new token to be accepted",
        lambda: lent.device("GET", "/file-0", new)["status"] == 200,
        lent.story,
    )
    assert lent.device("GET", "/file-0", old)["status"] == 200
    assert lent.pod("store")["metadata"]["uid"] == before


def resize(lent: LentSlice, command: Command, token: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Grow and shrink while files are written; then ask for less than is used."""
    written: dict[str, int] = {}
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            path = f"/load-{len(written)}"
            if lent.device("PUT", path, token, 100_000)["status"] == 201:
                written[path] = 100_000

    load = threading.Thread(target=write)
    load.start()
    try:
        for size in ("96Mi", "48Mi"):
            before = len(written)
            with lent.synced():
                command("resize", size, "--wait", "--timeout", "60s")
            assert lent.resource()["status"]["quota"] == size
            wait_for("more files", lambda: len(written) > before)  # noqa: B023 - called at once
    finally:
        ended.set()
        load.join()
    assert lent.claim("cam-data")["status"]["capacity"]["storage"] == "96Mi"
    compare_files(lent, token)
    files = lent.volume() / "files"
    for path, length in written.items():
        assert hashlib.sha256((files / path[1:]).read_bytes()).hexdigest() == expected(length, path)
    wait_for("the use to be known", lambda: used(lent) > 1 << 20, lent.story)
    assert main(["augment", "resize", NAME, "1Mi", *lent.where]) == 2
    assert "are in use, more than 1Mi: nothing was changed" in capsys.readouterr().err


def used(lent: LentSlice) -> int:
    """Return how much the store holds, as the operator knows it."""
    return parse_quantity(lent.resource()["status"].get("used", "0"))


def replace_store(lent: LentSlice) -> None:
    """Delete the pod of the store at once, and wait for the next one."""
    before = lent.pod("store")["metadata"]
    lent.delete_pod(before["name"])
    wait_for("another store", lambda: uid_of(lent) not in ("", before["uid"]), lent.story)
    lent.wait_until("Ready", "True")


def uid_of(lent: LentSlice) -> str:
    """Return the uid of the store's pod; empty: there is none."""
    try:
        return str(lent.pod("store")["metadata"]["uid"])
    except StopIteration:
        return ""
