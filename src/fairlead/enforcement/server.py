"""The program: it answers the agent, and looks at its daemons in between."""

import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from fairlead.enforcement import LIMIT_SOCKET
from fairlead.enforcement.daemons import MpsDaemons
from fairlead.enforcement.request import Limit, Refused, StopDaemon, parse_request
from fairlead.limiter.mps import PROGRAM, control_program
from fairlead.warden.listener import serve_until_signal
from fairlead.warden.session import RequestSession

Say = Callable[[str], None]


class LimiterConfig(NamedTuple):
    """The folder of the socket and the daemons, the agent's group, and the program of a daemon."""

    folder: str
    group: int
    program: str = ""
    """The path of `nvidia-cuda-mps-control`; empty: where it is found."""


def run(config: LimiterConfig, say: Say) -> None:
    """Serve until SIGTERM or SIGINT, then end the daemons."""
    program = config.program or control_program(os.environ) or ""
    if not program:
        say(f"{PROGRAM} is not in this container: it needs NVIDIA's runtime (nvidia.runtimeClassName)")
    daemons = MpsDaemons(config.folder, program, say)
    factories = {
        LIMIT_SOCKET: lambda connection, now: RequestSession(
            connection, lambda line: answer(line, daemons, say), now
        )
    }
    daemons.resume()
    try:
        serve_until_signal(config.folder, config.group, factories, say, timers=(daemons,))
    finally:
        daemons.close()


def answer(line: bytes, daemons: MpsDaemons, say: Say) -> bytes:
    """Carry out a request if it is allowed, and return the line that answers it."""
    request = parse_request(line)
    try:
        if isinstance(request, Limit):
            fault = daemons.start(request)
            fields: dict[str, Any] = {"started": True}
        elif isinstance(request, StopDaemon):
            fault, fields = "", {"stopped": daemons.stop(request.identity)}
        elif isinstance(request, Refused):
            fault, fields = request.reason, {}
        else:
            fault, fields = "", {"daemons": dict(daemons.alive())}
    except OSError as error:
        fault, fields = f"the folder cannot be used: {error.strerror}", {}
    if fault:
        say(f"refused: {fault}")
        return _encode({"ok": False, "error": fault})
    return _encode({"ok": True, **fields})


def _encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
