"""The agent's side: requests to start, stop and list MPS daemons. Blocking, with a short timeout."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fairlead.enforcement import ANSWER_LIMIT
from fairlead.enforcement.request import IDENTITY, Limit
from fairlead.errors import LimiterError
from fairlead.warden.client import exchange

_TIMEOUT: Final = 10.0
"""Seconds: a daemon starts in 0.1, and ends in one where a client hangs."""
_HINT: Final = "check that the pod fairlead-limiter of this node runs"


class LimiterClient:
    """The MPS daemons of this node, through the limiter's socket. From a coroutine, call it in a thread."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def start(self, limit: Limit) -> None:
        """Have a daemon for a limit; LimiterError where there is none."""
        self._request(limit.to_json())

    def stop(self, identity: str) -> None:
        """End a daemon; an unknown one counts as ended."""
        self._request({"stop": identity})

    def alive(self) -> dict[str, bool]:
        """Return whether each daemon lives, by its name."""
        daemons = self._request({"list": True}).get("daemons")
        if not isinstance(daemons, dict) or not all(map(IDENTITY.fullmatch, daemons)):
            raise LimiterError(f"{self._socket}: the answer has an unexpected form", _HINT)
        return {name: value is True for name, value in daemons.items()}

    def _request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        line = json.dumps(request, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            answer = json.loads(exchange(self._socket, line, _TIMEOUT, ANSWER_LIMIT))
        except OSError as error:
            raise LimiterError(
                f"the limiter at {self._socket} cannot be reached: {error.strerror or error}", _HINT
            ) from None
        except (ValueError, RecursionError):
            raise LimiterError(f"the limiter at {self._socket} closed the connection", _HINT) from None
        if not isinstance(answer, dict) or answer.get("ok") is not True:
            reason = answer.get("error") if isinstance(answer, dict) else answer
            raise LimiterError(f"the limiter refused: {reason}", _HINT)
        return answer
