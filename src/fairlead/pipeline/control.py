"""Messages between the coordinator and a worker: JSON with descriptors, one in each packet."""

import json
import select
import socket
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from fairlead.pipeline.edge import EdgeContract, EdgePolicy
from fairlead.pipeline.ports import parse_port
from fairlead.pipeline.spec import BatchSpec, CanarySpec, OnError, ReplicaScale, StageRole, StageSpec

_LONGEST: Final = 1 << 18
_ROOM: Final = socket.CMSG_LEN(4 * array("i").itemsize)
Message = dict[str, Any]


class Channel:
    """One end of the connection between the coordinator and a worker."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        sock.setblocking(True)
        self._readable = select.poll()
        self._readable.register(sock, select.POLLIN)

    @classmethod
    def pair(cls) -> "tuple[Channel, Channel]":
        """Return the two ends of a new connection."""
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (one, other):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _LONGEST)
        return cls(one), cls(other)

    @classmethod
    def adopt(cls, descriptor: int) -> "Channel":
        """Return the end that a process has inherited."""
        return cls(socket.socket(fileno=descriptor))

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._socket.fileno()

    def send(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send one message; OSError once the other end is gone."""
        socket.send_fds(self._socket, [json.dumps(message).encode()], list(descriptors))

    def receive(self) -> tuple[Message, list[int]] | None:
        """Return the next message and its descriptors; None: there is none yet. EOFError at the end."""
        if not self._readable.poll(0):  # a worker asks for each frame, and room for a message is dear
            return None
        try:  # recv_fds of the standard library ignores its flags
            data, ancillary, _, _ = self._socket.recvmsg(_LONGEST, _ROOM, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return None
        except ConnectionError:
            raise EOFError from None
        if not data:
            raise EOFError
        descriptors = array("i")
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
        return json.loads(data), descriptors.tolist()

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


def stage_to_json(stage: StageSpec) -> Message:
    """Return a stage as JSON."""
    return asdict(stage) | {"inputs": str(stage.inputs), "outputs": str(stage.outputs)}


def stage_from_json(body: Message) -> StageSpec:
    """Return the stage of a JSON object that `stage_to_json` made."""
    return StageSpec(
        **body
        | {
            "role": StageRole(body["role"]),
            "inputs": parse_port(body["inputs"]),
            "outputs": parse_port(body["outputs"]),
            "batch": BatchSpec(**body["batch"]) if body["batch"] else None,
            "scale": ReplicaScale(**body["scale"]) if body["scale"] else None,
            "canary": CanarySpec(**body["canary"]) if body["canary"] else None,
            "on_error": OnError(body["on_error"]),
            "cores": tuple(body["cores"]),
            "command": tuple(body["command"]),
        }
    )


def contract_from_json(body: Message) -> EdgeContract:
    """Return the contract of a JSON object that `asdict` made."""
    return EdgeContract(**body | {"policy": EdgePolicy(body["policy"])})
