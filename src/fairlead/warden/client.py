"""The agent's side: requests to the warden to put and remove CDI files. Blocking, with a short timeout."""

import contextlib
import hashlib
import json
import socket as sockets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fairlead.errors import WardenError
from fairlead.warden.spec import render

_TIMEOUT: Final = 10.0
_ANSWER_LIMIT: Final = 1024 * 1024


class CdiWriter:
    """The CDI folder, through the warden's socket. From a coroutine, call it in a thread."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def put(self, name: str, spec: Mapping[str, Any]) -> str:
        """Write a file, or leave it where its content is the same; return its SHA-256."""
        return str(self._request({"put": name, "spec": spec}, name)["sha256"])

    def remove(self, name: str) -> None:
        """Remove a file; a missing file counts as removed."""
        self._request({"remove": name}, name)

    def names(self) -> Mapping[str, str]:
        """Return our files in the folder, each with its SHA-256: compare it with `digest`."""
        files: Mapping[str, str] = self._request({"list": True}, "list")["files"]
        return files

    def _request(self, request: Mapping[str, Any], what: str) -> dict[str, Any]:
        line = json.dumps(request, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            answer = json.loads(exchange(self._socket, line, _TIMEOUT, _ANSWER_LIMIT))
        except OSError as error:
            raise WardenError(
                f"the warden at {self._socket} cannot be reached: {error.strerror or error}",
                "check that the container 'warden' of the agent's pod runs",
            ) from None
        except ValueError:
            raise WardenError(f"the warden at {self._socket} closed the connection on {what}") from None
        if not isinstance(answer, dict) or answer.get("ok") is not True:
            reason = answer.get("error") if isinstance(answer, dict) else answer
            raise WardenError(f"the warden refused {what}: {reason}")
        return answer


def exchange(socket: Path, line: bytes, timeout: float, limit: int) -> bytes:
    """Send one line to a socket and return all that it answers, up to a limit; OSError on failure."""
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as wire:
        wire.settimeout(timeout)
        wire.connect(str(socket))
        with contextlib.suppress(
            BrokenPipeError, ConnectionResetError
        ):  # refused early: the answer has the reason
            wire.sendall(line)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while len(answer) < limit and (piece := wire.recv(1 << 16)):
                answer += piece
        return answer


def digest(spec: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the file that the warden writes for a spec."""
    return hashlib.sha256(render(spec)).hexdigest()
