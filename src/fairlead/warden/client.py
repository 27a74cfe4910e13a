"""The agent's side: asks the warden to put and remove CDI files. Blocking, with a short patience."""

import contextlib
import hashlib
import json
import socket as sockets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fairlead.errors import WardenError
from fairlead.warden.spec import render

_PATIENCE: Final = 10.0
_ANSWER_LIMIT: Final = 1024 * 1024


class CdiWriter:
    """The CDI folder, through the warden's socket. From a coroutine, call it in a thread."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def put(self, name: str, spec: Mapping[str, Any]) -> str:
        """Write a file, or leave it as it is where it says the same; return its SHA-256."""
        return str(self._ask({"put": name, "spec": spec}, name)["sha256"])

    def remove(self, name: str) -> None:
        """Remove a file; one that is not there is removed already."""
        self._ask({"remove": name}, name)

    def names(self) -> Mapping[str, str]:
        """Return the files of ours that are there, each with its SHA-256: compare it with `digest`."""
        files: Mapping[str, str] = self._ask({"list": True}, "list")["files"]
        return files

    def _ask(self, request: Mapping[str, Any], what: str) -> dict[str, Any]:
        line = json.dumps(request, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            answer = json.loads(self._exchange(line))
        except OSError as error:
            raise WardenError(
                f"the warden at {self._socket} cannot be reached: {error.strerror or error}",
                "see whether the container 'warden' of the agent's pod runs",
            ) from None
        except ValueError:
            raise WardenError(f"the warden at {self._socket} hung up on {what}") from None
        if not isinstance(answer, dict) or answer.get("ok") is not True:
            reason = answer.get("error") if isinstance(answer, dict) else answer
            raise WardenError(f"the warden refused {what}: {reason}")
        return answer

    def _exchange(self, line: bytes) -> bytes:
        with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as wire:
            wire.settimeout(_PATIENCE)
            wire.connect(str(self._socket))
            with contextlib.suppress(
                BrokenPipeError, ConnectionResetError
            ):  # refused early: the answer says why
                wire.sendall(line)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while len(answer) < _ANSWER_LIMIT and (piece := wire.recv(1 << 16)):
                    answer += piece
            return answer


def digest(spec: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the file that the warden makes of a spec."""
    return hashlib.sha256(render(spec)).hexdigest()
