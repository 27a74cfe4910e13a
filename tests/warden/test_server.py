"""The warden's doors: clients that are many, slow, silent, or send what nobody asked for."""

import json
import os
import selectors
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from fairlead.errors import UserError
from fairlead.warden import CDI_SOCKET, POD_RESOURCES_SOCKET, folders
from fairlead.warden.protocol import REQUEST_LIMIT
from fairlead.warden.server import (
    CONNECTION_LIMIT,
    Begin,
    Listener,
    WardenConfig,
    listen,
    open_relay,
    secure_folder,
    serve,
    session_factories,
)
from fairlead.warden.session import IDLE_SECONDS, REQUEST_SECONDS
from tests.warden.kubelet import PATIENCE, Kubelet
from tests.warden.specs import ACCELERATORS, bent, good

GROUP = os.getegid()


@pytest.fixture
def wish(tmp_path: Path) -> WardenConfig:
    for name in ("shared", "cdi", "machine"):
        (tmp_path / name).mkdir()
    folder, cdi, machine = (str(tmp_path / name) for name in ("shared", "cdi", "machine"))
    return WardenConfig(folder, GROUP, str(tmp_path / "kubelet.sock"), cdi, machine)


@pytest.fixture
def warden(wish: WardenConfig) -> Iterator[WardenConfig]:
    """Serve from a thread, and stop it in the end."""
    here, there = socket.socketpair()
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        place = stack.enter_context(folders.real_folder(wish.folder))
        secure_folder(place, wish.folder, wish.group)
        doors = [
            stack.enter_context(
                closing(Listener(stack.enter_context(listen(place, name, GROUP)), selector, begin))
            )
            for name, begin in session_factories(wish, lambda _: None).items()
        ]
        thread = threading.Thread(target=serve, args=(selector, doors, here))
        thread.start()
        yield wish
        there.send(b"stop")
        thread.join(PATIENCE)
        assert not thread.is_alive()
    here.close()
    there.close()
    assert os.listdir(wish.folder) == []


def connect(wish: WardenConfig, name: str = CDI_SOCKET) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.connect(os.path.join(wish.folder, name))  # waits outside; with a time limit it would not
    line.settimeout(PATIENCE)
    return line


def rest(line: socket.socket) -> bytes:
    """Return all that comes until the other side is done."""
    pieces = []
    with suppress(ConnectionResetError):
        while piece := line.recv(1 << 16):
            pieces.append(piece)
    return b"".join(pieces)


def ask(wish: WardenConfig, request: object) -> dict[str, object]:
    with connect(wish) as line:
        line.sendall(json.dumps(request).encode() + b"\n")
        answer: dict[str, object] = json.loads(rest(line))
        return answer


def kubelet(wish: WardenConfig, greeting: bytes = b"") -> Kubelet:
    return Kubelet(Path(str(wish.pod_resources)), greeting)


def test_the_sockets_are_the_group_s_and_their_folder_is_closed_to_all_others(warden: WardenConfig) -> None:
    assert sorted(os.listdir(warden.folder)) == [CDI_SOCKET, POD_RESOURCES_SOCKET]
    assert stat.S_IMODE(os.stat(warden.folder).st_mode) == 0o750
    for name in (CDI_SOCKET, POD_RESOURCES_SOCKET):
        found = os.stat(os.path.join(warden.folder, name))
        assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o660, GROUP)


def test_a_question_is_answered_and_the_line_is_closed(warden: WardenConfig) -> None:
    assert ask(warden, {"put": ACCELERATORS, "spec": good()})["ok"] is True
    assert ask(warden, {"put": ACCELERATORS, "spec": bent("annotations", {})}) == {
        "ok": False,
        "error": "annotations: not allowed",
    }
    assert os.listdir(str(warden.cdi)) == [ACCELERATORS]


def test_a_question_may_come_in_pieces_and_only_the_first_is_answered(warden: WardenConfig) -> None:
    with connect(warden) as line:
        for byte in b'{"list": true}\n{"remove": "x"}\n':
            try:
                line.send(bytes([byte]))
            except BrokenPipeError:
                break  # answered and closed after the first line
        assert json.loads(rest(line)) == {"ok": True, "files": {}}


def test_a_question_without_an_end_is_cut_off(warden: WardenConfig) -> None:
    with connect(warden) as line:
        with suppress(BrokenPipeError, ConnectionResetError):
            line.sendall(b" " * (REQUEST_LIMIT + (1 << 20)))
        assert json.loads(rest(line)) == {"ok": False, "error": "the request is longer than 262144 bytes"}


def test_half_a_question_has_no_answer(warden: WardenConfig) -> None:
    with connect(warden) as line:
        line.send(b'{"list": true}')
        line.shutdown(socket.SHUT_WR)
        assert rest(line) == b""


def test_a_hundred_clients_are_all_served(warden: WardenConfig) -> None:
    """More than are let in at once: they wait outside, in threads of their own."""
    answers: list[object] = []
    threads = [
        threading.Thread(target=lambda: answers.append(ask(warden, {"list": True})["ok"])) for _ in range(100)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert answers == [True] * 100


def test_a_few_silent_clients_hold_up_the_others_only_while_they_are_there(warden: WardenConfig) -> None:
    silent = [connect(warden) for _ in range(CONNECTION_LIMIT)]
    with connect(warden) as line:
        line.sendall(b'{"list": true}\n')
        for each in silent:
            each.close()
        assert json.loads(rest(line))["ok"]


def test_what_comes_goes_through_both_ways(warden: WardenConfig) -> None:
    with kubelet(warden, b"hello "), connect(warden, POD_RESOURCES_SOCKET) as line:
        line.sendall(b"abc")
        line.shutdown(socket.SHUT_WR)
        assert rest(line) == b"hello ABC"


def test_a_lot_goes_through(warden: WardenConfig) -> None:
    with kubelet(warden), connect(warden, POD_RESOURCES_SOCKET) as line:
        data = b"x" * (8 << 20)
        writer = threading.Thread(target=line.sendall, args=(data,))
        writer.start()
        heard = b""
        while len(heard) < len(data) and (piece := line.recv(1 << 16)):
            heard += piece
        writer.join(PATIENCE)
        assert heard == data.upper()


def test_without_a_kubelet_the_line_is_closed_at_once(warden: WardenConfig) -> None:
    with connect(warden, POD_RESOURCES_SOCKET) as line:
        assert rest(line) == b""


def test_a_restart_of_the_kubelet_is_survived(warden: WardenConfig) -> None:
    for round_ in range(3):
        with kubelet(warden):
            line = connect(warden, POD_RESOURCES_SOCKET)
            line.sendall(b"round %d" % round_)
            assert line.recv(100) == b"ROUND %d" % round_
        assert rest(line) == b""
        line.close()
        with connect(warden, POD_RESOURCES_SOCKET) as line:
            assert rest(line) == b""


def test_relays_are_few_and_do_not_hold_up_questions(warden: WardenConfig) -> None:
    with kubelet(warden, b"in"), ExitStack() as stack:
        first = connect(warden, POD_RESOURCES_SOCKET)
        more = [connect(warden, POD_RESOURCES_SOCKET) for _ in range(CONNECTION_LIMIT - 1)]
        assert [stack.enter_context(line).recv(2) for line in (first, *more)] == [b"in"] * CONNECTION_LIMIT
        outside = stack.enter_context(connect(warden, POD_RESOURCES_SOCKET))
        outside.settimeout(0.2)
        with pytest.raises(TimeoutError):
            outside.recv(2)
        assert ask(warden, {"list": True})["ok"]
        first.close()
        outside.settimeout(PATIENCE)
        assert outside.recv(2) == b"in"


def test_a_flood_that_nobody_reads_stops_at_the_door(warden: WardenConfig) -> None:
    """A client that sends and never reads fills the buffers of the kernel and ours, and no more."""
    with kubelet(warden) as server, connect(warden, POD_RESOURCES_SOCKET) as line:
        line.settimeout(1)
        with pytest.raises(TimeoutError):
            line.sendall(b"x" * (32 << 20))
        assert server.heard < 4 << 20
        assert ask(warden, {"list": True})["ok"]


def door(folder: Path, begin: Begin) -> tuple[Listener, selectors.BaseSelector, Path]:
    """Return a door that nobody serves, so that the test is the clock."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "door.sock"))
    listener.listen(64)
    selector = selectors.DefaultSelector()
    return Listener(listener, selector, begin), selector, folder / "door.sock"


def turn(selector: selectors.BaseSelector, now: float) -> None:
    for key, _ in selector.select(0):
        key.data(now)


def test_a_slow_question_has_five_seconds_in_all(wish: WardenConfig, tmp_path: Path) -> None:
    begin = session_factories(wish, lambda _: None)[CDI_SOCKET]
    entry, selector, path = door(tmp_path, begin)
    with closing(entry), socket.socket(socket.AF_UNIX) as line:
        line.connect(str(path))
        turn(selector, 100.0)
        assert entry.deadline() == 100.0 + REQUEST_SECONDS
        line.send(b"{")
        turn(selector, 104.0)
        entry.expire(104.9)
        assert entry.deadline() == 100.0 + REQUEST_SECONDS  # a byte buys no time
        entry.expire(105.0)
        assert entry.deadline() is None
        line.settimeout(PATIENCE)
        assert rest(line) == b""


def test_a_relay_that_carries_nothing_is_closed(tmp_path: Path) -> None:
    server = tmp_path / "k.sock"
    entry, selector, path = door(tmp_path, lambda line, now: open_relay(line, str(server), now))
    with Kubelet(server), closing(entry), socket.socket(socket.AF_UNIX) as line:
        line.connect(str(path))
        turn(selector, 100.0)
        assert entry.deadline() == 100.0 + IDLE_SECONDS
        line.send(b"a")
        turn(selector, 200.0)
        assert entry.deadline() == 200.0 + IDLE_SECONDS  # what is used stays open
        entry.expire(200.0 + IDLE_SECONDS)
        assert entry.deadline() is None
        line.settimeout(PATIENCE)
        assert rest(line) in (b"", b"A")


def test_a_silent_crowd_makes_room_when_its_time_is_up(wish: WardenConfig, tmp_path: Path) -> None:
    begin = session_factories(wish, lambda _: None)[CDI_SOCKET]
    entry, selector, path = door(tmp_path, begin)
    with closing(entry), ExitStack() as stack:
        crowd = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(CONNECTION_LIMIT + 3)]
        for line in crowd:
            line.connect(str(path))
        for _ in range(20):
            turn(selector, 1.0)
        assert len(selector.get_map()) == CONNECTION_LIMIT  # the door itself is shut
        entry.expire(1.0 + REQUEST_SECONDS)
        for _ in range(20):
            turn(selector, 9.0)
        assert len(selector.get_map()) == 1 + 3


def test_whatever_the_agent_planted_before_is_swept_aside(wish: WardenConfig, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    victim.chmod(0o600)
    os.chmod(wish.folder, 0o777)
    for name in (CDI_SOCKET, POD_RESOURCES_SOCKET):
        (Path(wish.folder) / name).symlink_to(victim)
    with folders.real_folder(wish.folder) as place:
        secure_folder(place, wish.folder, GROUP)
        with listen(place, CDI_SOCKET, GROUP), listen(place, POD_RESOURCES_SOCKET, GROUP):
            kinds = [stat.S_ISSOCK(os.lstat(entry.path).st_mode) for entry in os.scandir(wish.folder)]
            assert kinds == [True, True]
    assert (victim.read_text(), stat.S_IMODE(victim.stat().st_mode)) == ("mine", 0o600)


def test_a_folder_in_a_socket_s_place_is_an_error(wish: WardenConfig) -> None:
    (Path(wish.folder) / CDI_SOCKET).mkdir()
    with (
        folders.real_folder(wish.folder) as place,
        pytest.raises(UserError, match="a folder is in its place"),
        listen(place, CDI_SOCKET, GROUP),
    ):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(wish: WardenConfig) -> None:
    os.chown(wish.folder, 10001, -1)
    with folders.real_folder(wish.folder) as place, pytest.raises(UserError, match="it belongs to uid 10001"):
        secure_folder(place, wish.folder, GROUP)
    assert stat.S_IMODE(os.stat(wish.folder).st_mode) == 0o755


def test_each_socket_is_there_only_when_it_is_wished_for(wish: WardenConfig) -> None:
    assert list(session_factories(wish._replace(cdi=None), lambda _: None)) == [POD_RESOURCES_SOCKET]
    assert list(session_factories(wish._replace(pod_resources=None), lambda _: None)) == [CDI_SOCKET]
