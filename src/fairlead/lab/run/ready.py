"""Wait until programs are ready; an error names the failed program and shows the tail of its log."""

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
    """Return the last lines of a log, indented and cut at 300 characters."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - (1 << 16)))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return "  | (no log)"
    last = [line[:_WIDEST] for line in text.splitlines() if line.strip()][-lines:]
    return "\n".join(f"  | {line}" for line in last) or "  | (the log is empty)"


def check_running(programs: Iterable[LabProgram]) -> None:
    """Raise if a program has stopped."""
    for program in programs:
        if not alive(program.process):
            raise LabError(
                f"{program.name} stopped while the lab started; last lines of its log:\n"
                f"{tail(Path(program.log))}",
                hint="everything that was started has been ended",
            )


def wait(
    condition: Callable[[], bool],
    programs: Iterable[LabProgram],
    slowest: LabProgram,
    step: LabStep,
    limit: float,
    poll: float = _POLL,
) -> None:
    """Wait until a condition holds, while every program runs; a timeout blames `slowest`."""
    programs = tuple(programs)
    until = time.monotonic() + limit
    while True:
        check_running(programs)
        if condition():
            return
        if time.monotonic() > until:
            raise LabError(
                f"{slowest.name} was not ready within {limit:.0f} s; "
                f"last lines of its log:\n{tail(Path(slowest.log))}",
                hint="on a busy machine try again; everything that was started has been ended",
            )
        step.tick()
        time.sleep(poll)


def wait_healthy(
    condition: Callable[[], bool], program: LabProgram, tick: Callable[[], None], limit: float
) -> None:
    """Wait until a program that was started in a running lab is healthy."""
    until = time.monotonic() + limit
    while not condition():
        excerpt = f"last lines of its log:\n{tail(Path(program.log))}"
        if not alive(program.process):
            raise LabError(f"{program.name} stopped right after its start; {excerpt}")
        if time.monotonic() > until:
            raise LabError(
                f"{program.name} was not healthy within {limit:.0f} s; {excerpt}",
                hint="on a busy machine try again: fairlead lab restart",
            )
        tick()
        time.sleep(_POLL)


def responds_ok(port: int, path: str, context: ssl.SSLContext) -> bool:
    """Return whether a program on the loopback responds with 200."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def admin_tls_context(keys: Path) -> ssl.SSLContext:
    """Return the administrator's TLS context for the API server."""
    context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    context.load_cert_chain(keys / "admin.crt", keys / "admin.key")
    return context


def unverified_tls_context() -> ssl.SSLContext:
    """Return a TLS context for the health endpoint of a program with a self-signed certificate.

    Nothing secret is sent there.
    """
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
