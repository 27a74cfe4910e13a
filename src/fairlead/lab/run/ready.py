"""Wait for what was started, and say which program failed and what it said last."""

import http.client
import ssl
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from fairlead.errors import LabError
from fairlead.lab.run.process import alive
from fairlead.lab.run.state import LabProgram
from fairlead.lab.run.steps import LabStep

_TAIL: Final = 12
_WIDEST: Final = 300
_POLL: Final = 0.05


def tail(log: Path, lines: int = _TAIL) -> str:
    """Return the last lines of a log, indented; those of a whole cluster can be very long."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - (1 << 16)))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return "  | (no log)"
    last = [line[:_WIDEST] for line in text.splitlines() if line.strip()][-lines:]
    return "\n".join(f"  | {line}" for line in last) or "  | (it said nothing)"


def check_running(programs: Iterable[LabProgram]) -> None:
    """Raise when a program that should run does not."""
    for program in programs:
        if not alive(program.process):
            raise LabError(
                f"{program.name} stopped while the lab started; it said last:\n{tail(Path(program.log))}",
                hint="what had been started is gone again",
            )


def wait(
    what: Callable[[], bool],
    programs: Iterable[LabProgram],
    slowest: LabProgram,
    step: LabStep,
    limit: float,
    poll: float = _POLL,
) -> None:
    """Wait until something is so, as long as every program lives; `slowest` is who we wait for."""
    programs = tuple(programs)
    until = time.monotonic() + limit
    while True:
        check_running(programs)
        if what():
            return
        if time.monotonic() > until:
            raise LabError(
                f"{slowest.name} was not ready within {limit:.0f} s; "
                f"it said last:\n{tail(Path(slowest.log))}",
                hint="on a busy machine try again; what had been started is gone again",
            )
        step.tick()
        time.sleep(poll)


def wait_healthy(
    what: Callable[[], bool], program: LabProgram, tick: Callable[[], None], limit: float
) -> None:
    """Wait until a program that was started in a lab that runs is well."""
    until = time.monotonic() + limit
    while not what():
        said = f"it said last:\n{tail(Path(program.log))}"
        if not alive(program.process):
            raise LabError(f"{program.name} stopped as soon as it was started; {said}")
        if time.monotonic() > until:
            raise LabError(
                f"{program.name} was not well within {limit:.0f} s; {said}",
                hint="on a busy machine try again: fairlead lab restart",
            )
        tick()
        time.sleep(_POLL)


def responds_ok(port: int, path: str, context: ssl.SSLContext) -> bool:
    """Say whether a program on the loopback says that it is well."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def admin_tls_context(keys: Path) -> ssl.SSLContext:
    """Return how the administrator speaks to the API server."""
    context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    context.load_cert_chain(keys / "admin.crt", keys / "admin.key")
    return context


def unverified_tls_context() -> ssl.SSLContext:
    """Return how to ask a program for its health that makes its own certificate; nothing is sent to it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
