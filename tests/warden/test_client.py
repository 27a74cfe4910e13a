"""The agent's side of the warden."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairlead.errors import WardenError
from fairlead.warden.client import CdiWriter, digest
from fairlead.warden.devices import Devices
from fairlead.warden.protocol import answer
from fairlead.warden.store import Store
from tests.warden.kubelet import PATIENCE
from tests.warden.specs import ACCELERATORS, bent, claim, good


@contextmanager
def served(path: Path, reply: Callable[[bytes], bytes], times: int = 1) -> Iterator[CdiWriter]:
    """Answer some connections with `reply` of their first line."""

    def serve() -> None:
        for _ in range(times):
            line, _ = listener.accept()
            with line:
                line.sendall(reply(line.makefile("rb").readline()))

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield CdiWriter(path)
        thread.join(PATIENCE)


def test_files_are_put_listed_and_removed(tmp_path: Path) -> None:
    (tmp_path / "cdi").mkdir()
    store = Store(str(tmp_path / "cdi"), Devices(str(tmp_path)), lambda _: None)
    with served(tmp_path / "s", lambda line: answer(line, store, lambda _: None), 7) as writer:
        file, spec = claim()
        assert writer.put(ACCELERATORS, good()) == digest(good())
        assert writer.put(file, spec) == digest(spec)
        assert writer.names() == {ACCELERATORS: digest(good()), file: digest(spec)}
        writer.remove(file)
        writer.remove(file)
        assert list(writer.names()) == [ACCELERATORS]
        with pytest.raises(WardenError, match=f"the warden refused {ACCELERATORS}: annotations: not allowed"):
            writer.put(ACCELERATORS, bent("annotations", {}))


def test_an_unavailable_warden_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(WardenError, match="cannot be reached: No such file or directory") as caught:
        CdiWriter(tmp_path / "nothing.sock").names()
    assert "container 'warden'" in caught.value.hint
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("reply", [b"", b"{", b"\xff\n", b"not json\n"])
def test_a_warden_that_closes_the_connection_is_an_error(tmp_path: Path, reply: bytes) -> None:
    with (
        served(tmp_path / "s", lambda _: reply) as writer,
        pytest.raises(WardenError, match="closed the connection on list"),
    ):
        writer.names()


@pytest.mark.parametrize("reply", [b"[]\n", b"{}\n", b'{"ok":1}\n', b"null\n"])
def test_an_invalid_answer_is_a_refusal(tmp_path: Path, reply: bytes) -> None:
    with served(tmp_path / "s", lambda _: reply) as writer, pytest.raises(WardenError, match="refused list"):
        writer.names()
