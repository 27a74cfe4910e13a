"""The warden's listeners: clients that are many, slow, silent, or send unexpected bytes."""

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
from fairlead.warden.listener import (
    CONNECTION_LIMIT,
    Listener,
    SessionFactory,
    listen,
    secure_folder,
    serve,
)
from fairlead.warden.server import WardenConfig, open_relay, session_factories
from fairlead.warden.session import IDLE_SECONDS, REQUEST_LIMIT, REQUEST_SECONDS
from tests.warden.kubelet import PATIENCE, Kubelet
from tests.warden.specs import ACCELERATORS, bent, good

GROUP = os.getegid()


@pytest.fixture
def config(tmp_path: Path) -> WardenConfig:
    for name in ("shared", "cdi", "machine"):
        (tmp_path / name).mkdir()
    folder, cdi, machine = (str(tmp_path / name) for name in ("shared", "cdi", "machine"))
    return WardenConfig(folder, GROUP, str(tmp_path / "kubelet.sock"), cdi, machine)


@pytest.fixture
def warden(config: WardenConfig) -> Iterator[WardenConfig]:
    """Serve from a thread, and stop it at the end."""
    reader, writer = socket.socketpair()
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        place = stack.enter_context(folders.real_folder(config.folder))
        secure_folder(place, config.folder, config.group)
        listeners = [
            stack.enter_context(
                closing(Listener(stack.enter_context(listen(place, name, GROUP)), selector, start_session))
            )
            for name, start_session in session_factories(config, lambda _: None).items()
        ]
        thread = threading.Thread(target=serve, args=(selector, listeners, reader))
        thread.start()
        yield config
        writer.send(b"stop")
        thread.join(PATIENCE)
        assert not thread.is_alive()
    reader.close()
    writer.close()
    assert os.listdir(config.folder) == []


def connect(config: WardenConfig, name: str = CDI_SOCKET) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(
        os.path.join(config.folder, name)
    )  # waits in the backlog; with a time limit it would not
    connection.settimeout(PATIENCE)
    return connection


def rest(connection: socket.socket) -> bytes:
    """Return all bytes until the other side closes."""
    pieces = []
    with suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
    return b"".join(pieces)


def ask(config: WardenConfig, request: object) -> dict[str, object]:
    with connect(config) as connection:
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer: dict[str, object] = json.loads(rest(connection))
        return answer


def kubelet(config: WardenConfig, greeting: bytes = b"") -> Kubelet:
    return Kubelet(Path(str(config.pod_resources)), greeting)


def test_only_the_group_can_reach_the_sockets(warden: WardenConfig) -> None:
    assert sorted(os.listdir(warden.folder)) == [CDI_SOCKET, POD_RESOURCES_SOCKET]
    assert stat.S_IMODE(os.stat(warden.folder).st_mode) == 0o750
    for name in (CDI_SOCKET, POD_RESOURCES_SOCKET):
        found = os.stat(os.path.join(warden.folder, name))
        assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o660, GROUP)


def test_a_request_is_answered_and_the_connection_closed(warden: WardenConfig) -> None:
    assert ask(warden, {"put": ACCELERATORS, "spec": good()})["ok"] is True
    assert ask(warden, {"put": ACCELERATORS, "spec": bent("annotations", {})}) == {
        "ok": False,
        "error": "annotations: not allowed",
    }
    assert os.listdir(str(warden.cdi)) == [ACCELERATORS]


def test_a_request_may_come_in_pieces_and_only_the_first_is_answered(warden: WardenConfig) -> None:
    with connect(warden) as connection:
        for byte in b'{"list": true}\n{"remove": "x"}\n':
            try:
                connection.send(bytes([byte]))
            except BrokenPipeError:
                break  # answered and closed after the first connection
        assert json.loads(rest(connection)) == {"ok": True, "files": {}}


def test_a_request_without_an_end_is_refused(warden: WardenConfig) -> None:
    with connect(warden) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(b" " * (REQUEST_LIMIT + (1 << 20)))
        assert json.loads(rest(connection)) == {
            "ok": False,
            "error": "the request is longer than 262144 bytes",
        }


def test_half_a_request_has_no_answer(warden: WardenConfig) -> None:
    with connect(warden) as connection:
        connection.send(b'{"list": true}')
        connection.shutdown(socket.SHUT_WR)
        assert rest(connection) == b""


def test_a_hundred_clients_are_all_served(warden: WardenConfig) -> None:
    """More than the limit: the rest wait in the backlog, in threads of their own."""
    answers: list[object] = []
    threads = [
        threading.Thread(target=lambda: answers.append(ask(warden, {"list": True})["ok"])) for _ in range(100)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert answers == [True] * 100


def test_a_few_silent_clients_delay_others_only_while_they_are_connected(warden: WardenConfig) -> None:
    silent = [connect(warden) for _ in range(CONNECTION_LIMIT)]
    with connect(warden) as connection:
        connection.sendall(b'{"list": true}\n')
        for each in silent:
            each.close()
        assert json.loads(rest(connection))["ok"]


def test_bytes_are_relayed_both_ways(warden: WardenConfig) -> None:
    with kubelet(warden, b"hello "), connect(warden, POD_RESOURCES_SOCKET) as connection:
        connection.sendall(b"abc")
        connection.shutdown(socket.SHUT_WR)
        assert rest(connection) == b"hello ABC"


def test_many_bytes_are_relayed(warden: WardenConfig) -> None:
    with kubelet(warden), connect(warden, POD_RESOURCES_SOCKET) as connection:
        data = b"x" * (8 << 20)
        writer = threading.Thread(target=connection.sendall, args=(data,))
        writer.start()
        received = b""
        while len(received) < len(data) and (piece := connection.recv(1 << 16)):
            received += piece
        writer.join(PATIENCE)
        assert received == data.upper()


def test_without_a_kubelet_the_connection_is_closed_at_once(warden: WardenConfig) -> None:
    with connect(warden, POD_RESOURCES_SOCKET) as connection:
        assert rest(connection) == b""


def test_the_relay_survives_a_restart_of_the_kubelet(warden: WardenConfig) -> None:
    for round_ in range(3):
        with kubelet(warden):
            connection = connect(warden, POD_RESOURCES_SOCKET)
            connection.sendall(b"round %d" % round_)
            assert connection.recv(100) == b"ROUND %d" % round_
        assert rest(connection) == b""
        connection.close()
        with connect(warden, POD_RESOURCES_SOCKET) as connection:
            assert rest(connection) == b""


def test_relays_are_limited_and_do_not_delay_requests(warden: WardenConfig) -> None:
    with kubelet(warden, b"in"), ExitStack() as stack:
        first = connect(warden, POD_RESOURCES_SOCKET)
        more = [connect(warden, POD_RESOURCES_SOCKET) for _ in range(CONNECTION_LIMIT - 1)]
        assert [stack.enter_context(connection).recv(2) for connection in (first, *more)] == [
            b"in"
        ] * CONNECTION_LIMIT
        outside = stack.enter_context(connect(warden, POD_RESOURCES_SOCKET))
        outside.settimeout(0.2)
        with pytest.raises(TimeoutError):
            outside.recv(2)
        assert ask(warden, {"list": True})["ok"]
        first.close()
        outside.settimeout(PATIENCE)
        assert outside.recv(2) == b"in"


def test_an_unread_flood_stops_at_full_buffers(warden: WardenConfig) -> None:
    """A client that sends and never reads fills the buffers of the kernel and the relay, and no more."""
    with kubelet(warden) as server, connect(warden, POD_RESOURCES_SOCKET) as connection:
        connection.settimeout(1)
        with pytest.raises(TimeoutError):
            connection.sendall(b"x" * (32 << 20))
        assert server.received < 4 << 20
        assert ask(warden, {"list": True})["ok"]


def idle_listener(
    folder: Path, start_session: SessionFactory
) -> tuple[Listener, selectors.BaseSelector, Path]:
    """Return a listener without a loop, so that the test is the clock."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "idle_listener.sock"))
    listener.listen(64)
    selector = selectors.DefaultSelector()
    return Listener(listener, selector, start_session), selector, folder / "idle_listener.sock"


def run_once(selector: selectors.BaseSelector, now: float) -> None:
    for key, _ in selector.select(0):
        key.data(now)


def test_a_slow_request_has_five_seconds_in_all(config: WardenConfig, tmp_path: Path) -> None:
    start_session = session_factories(config, lambda _: None)[CDI_SOCKET]
    entry, selector, path = idle_listener(tmp_path, start_session)
    with closing(entry), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        run_once(selector, 100.0)
        assert entry.deadline() == 100.0 + REQUEST_SECONDS
        connection.send(b"{")
        run_once(selector, 104.0)
        entry.expire(104.9)
        assert entry.deadline() == 100.0 + REQUEST_SECONDS  # a byte does not extend the deadline
        entry.expire(105.0)
        assert entry.deadline() is None
        connection.settimeout(PATIENCE)
        assert rest(connection) == b""


def test_an_idle_relay_is_closed(tmp_path: Path) -> None:
    server = tmp_path / "k.sock"
    entry, selector, path = idle_listener(
        tmp_path, lambda connection, now: open_relay(connection, str(server), now)
    )
    with Kubelet(server), closing(entry), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        run_once(selector, 100.0)
        assert entry.deadline() == 100.0 + IDLE_SECONDS
        connection.send(b"a")
        run_once(selector, 200.0)
        assert entry.deadline() == 200.0 + IDLE_SECONDS  # a used relay stays open
        entry.expire(200.0 + IDLE_SECONDS)
        assert entry.deadline() is None
        connection.settimeout(PATIENCE)
        assert rest(connection) in (b"", b"A")


def test_silent_clients_make_room_after_their_deadline(config: WardenConfig, tmp_path: Path) -> None:
    start_session = session_factories(config, lambda _: None)[CDI_SOCKET]
    entry, selector, path = idle_listener(tmp_path, start_session)
    with closing(entry), ExitStack() as stack:
        clients = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(CONNECTION_LIMIT + 3)]
        for connection in clients:
            connection.connect(str(path))
        for _ in range(20):
            run_once(selector, 1.0)
        assert len(selector.get_map()) == CONNECTION_LIMIT  # the listener itself is unregistered
        entry.expire(1.0 + REQUEST_SECONDS)
        for _ in range(20):
            run_once(selector, 9.0)
        assert len(selector.get_map()) == 1 + 3


def test_files_that_the_agent_planted_before_are_removed(config: WardenConfig, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    victim.chmod(0o600)
    os.chmod(config.folder, 0o777)
    for name in (CDI_SOCKET, POD_RESOURCES_SOCKET):
        (Path(config.folder) / name).symlink_to(victim)
    with folders.real_folder(config.folder) as place:
        secure_folder(place, config.folder, GROUP)
        with listen(place, CDI_SOCKET, GROUP), listen(place, POD_RESOURCES_SOCKET, GROUP):
            kinds = [stat.S_ISSOCK(os.lstat(entry.path).st_mode) for entry in os.scandir(config.folder)]
            assert kinds == [True, True]
    assert (victim.read_text(), stat.S_IMODE(victim.stat().st_mode)) == ("mine", 0o600)


def test_a_folder_with_the_name_of_a_socket_is_an_error(config: WardenConfig) -> None:
    (Path(config.folder) / CDI_SOCKET).mkdir()
    with (
        folders.real_folder(config.folder) as place,
        pytest.raises(UserError, match="a folder has this name"),
        listen(place, CDI_SOCKET, GROUP),
    ):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(config: WardenConfig) -> None:
    os.chown(config.folder, 10001, -1)
    with (
        folders.real_folder(config.folder) as place,
        pytest.raises(UserError, match="belongs to uid 10001"),
    ):
        secure_folder(place, config.folder, GROUP)
    assert stat.S_IMODE(os.stat(config.folder).st_mode) == 0o755


def test_each_socket_exists_only_where_it_is_configured(config: WardenConfig) -> None:
    assert list(session_factories(config._replace(cdi=None), lambda _: None)) == [POD_RESOURCES_SOCKET]
    assert list(session_factories(config._replace(pod_resources=None), lambda _: None)) == [CDI_SOCKET]
