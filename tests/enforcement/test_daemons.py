"""The daemons: one for each share, brought back when killed, and nothing left after their end."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.enforcement.daemons import MpsDaemons
from fairlead.enforcement.request import Limit
from fairlead.limiter.mps import MpsFolder
from fairlead.limiter.mps_daemon import MpsDaemon
from tests.limiter.control import write_control

NAME = "0f8fad5bd9cb469fa16570867728950e"
OTHER = f"1{NAME[1:]}"
GPU = "GPU-0f8fad5b-d9cb-469f-a165-70867728950e"
MIG = f"MIG{GPU[3:]}"
LIMIT = Limit(NAME, (GPU, MIG), 4096, 25)


class Node:
    """A folder of daemons, with a played program."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "mps"
        self.folder.mkdir()
        self.program = write_control(folder)
        self.lines: list[str] = []
        self.daemons = self.next()

    def next(self) -> MpsDaemons:
        """Return the daemons as the next program sees them."""
        return MpsDaemons(str(self.folder), self.program, self.lines.append)

    def daemon(self, name: str = NAME) -> MpsDaemon:
        return MpsDaemon(MpsFolder(str(self.folder / name)), self.program)

    def defaults(self, name: str = NAME) -> Any:
        return json.loads(self.daemon(name).send("played_defaults"))

    def kill(self, name: str = NAME) -> None:
        process = self.daemon(name).process()
        assert process is not None
        process.kill()
        while process.is_alive():
            os.sched_yield()


@pytest.fixture
def node() -> Iterator[Node]:
    """Return a node in a folder with a short name; its daemons end with the test."""
    with tempfile.TemporaryDirectory(prefix="fl-") as name:
        node = Node(Path(name))
        yield node
        for each in node.folder.iterdir():
            node.daemon(each.name).quit()


def test_a_daemon_has_the_limits_as_defaults_and_serves_every_user(node: Node) -> None:
    assert node.daemons.start(LIMIT) == ""
    assert node.defaults() == {
        "devices": f"{GPU},{MIG}",
        "arguments": "-d -M",
        "set_default_device_pinned_mem_limit 0": "4096M",
        "set_default_device_pinned_mem_limit 1": "4096M",
        "set_default_active_thread_percentage": "25",
    }
    pid = node.daemon().pid()
    assert node.daemons.start(LIMIT) == ""
    assert node.daemon().pid() == pid, "one that lives is left alone"
    assert node.daemons.alive() == {NAME: True}
    assert (node.folder / NAME / "pipe").stat().st_mode & 0o777 == 0o755
    assert node.daemons.start(LIMIT._replace(percent=None, memory=1024)) == ""
    assert node.defaults()["set_default_device_pinned_mem_limit 0"] == "1024M"
    assert "set_default_active_thread_percentage" not in node.defaults()


def test_a_killed_daemon_is_brought_back_in_the_folder_that_containers_have(node: Node) -> None:
    assert node.daemons.deadline() is None
    node.daemons.start(LIMIT)
    inode = (node.folder / NAME / "pipe").stat().st_ino
    assert node.daemons.deadline() is not None
    node.kill()
    assert node.daemons.alive() == {NAME: False}
    node.daemons.expire(100.0)
    assert node.daemons.alive() == {NAME: True}
    assert node.defaults()["set_default_device_pinned_mem_limit 1"] == "4096M"
    assert (node.folder / NAME / "pipe").stat().st_ino == inode
    assert node.lines[-1] == f"{NAME}: brought back"
    node.kill()
    node.daemons.expire(100.1)
    assert node.daemons.alive() == {NAME: False}, "the next look is not due yet"
    node.daemons.expire(101.0)
    assert node.daemons.alive() == {NAME: True}


def test_a_daemon_that_cannot_come_back_is_tried_less_and_less(node: Node) -> None:
    node.daemons.start(LIMIT)
    node.kill()
    Path(node.program).write_text("#!/bin/sh\necho no GPU; exit 1\n", encoding="ascii")
    for now in range(100):
        node.daemons.expire(float(now))
    tries = [line for line in node.lines if "cannot be brought back" in line]
    assert "exit code 1: no GPU" in tries[0]
    assert 4 <= len(tries) <= 12


def test_the_end_of_a_daemon_leaves_nothing(node: Node) -> None:
    node.daemons.start(LIMIT)
    node.daemons.start(Limit(OTHER, (GPU,), 1))
    process = node.daemon().process()
    assert node.daemons.stop(NAME)
    assert process is not None
    assert not process.is_alive()
    assert os.listdir(node.folder) == [OTHER]
    assert not node.daemons.stop(NAME)
    node.kill(OTHER)
    assert node.daemons.stop(OTHER)
    assert os.listdir(node.folder) == []
    assert node.daemons.deadline() is None


def test_the_next_program_brings_the_daemons_back(node: Node) -> None:
    node.daemons.start(LIMIT)
    node.daemons.start(Limit(OTHER, (GPU,), 1))
    node.daemons.close()
    (node.folder / OTHER / "limit.json").write_text('{"start": "x"}', encoding="ascii")
    (node.folder / "limit.sock").touch()
    later = node.next()
    assert later.alive() == {NAME: False, OTHER: False}
    later.resume()
    assert later.alive() == {NAME: True, OTHER: False}
    assert node.defaults()["set_default_active_thread_percentage"] == "25"
    assert later.stop(OTHER)


def test_a_program_that_lives_on_is_taken_over(node: Node) -> None:
    node.daemons.start(LIMIT)
    pid = node.daemon().pid()
    later = node.next()
    later.resume()
    assert later.alive() == {NAME: True}
    assert node.daemon().pid() == pid


def test_there_is_a_most_of_daemons_and_a_reason_where_none_starts(node: Node) -> None:
    Path(node.program).write_text("#!/bin/sh\nexit 3\n", encoding="ascii")
    daemons = MpsDaemons(str(node.folder), node.program, node.lines.append, most=2)
    assert "exit code 3" in daemons.start(LIMIT)
    assert "exit code 3" in daemons.start(LIMIT._replace(identity=OTHER))
    assert "exit code 3" in daemons.start(LIMIT), "one of them again is not one more"
    assert "at most 2" in daemons.start(LIMIT._replace(identity=f"2{NAME[1:]}"))


def test_a_long_log_is_emptied(node: Node) -> None:
    node.daemons.start(LIMIT)
    log = node.folder / NAME / "log" / "server.log"
    log.write_bytes(b"x" * (1 << 20))
    node.daemons.expire(100.0)
    assert log.stat().st_size == 1 << 20
    log.write_bytes(b"x" * ((1 << 20) + 1))
    node.daemons.expire(200.0)
    assert log.stat().st_size == 0


def test_the_folders_of_others_are_left_alone(node: Node) -> None:
    outside = node.folder.parent / "outside"
    outside.mkdir()
    (node.folder / NAME).symlink_to(outside)
    assert node.daemons.start(LIMIT) != ""
    assert os.listdir(outside) == []
