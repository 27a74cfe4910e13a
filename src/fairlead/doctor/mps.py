"""Checks whether jobs on this machine can be limited by MPS, and whether a daemon is in the way."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlead.doctor.finding import CheckResult, Finding, count, ok, some, warn
from fairlead.ledger.users import user_name
from fairlead.limiter.mps import DEFAULT_FOLDER, PIPE, PROGRAM, control_program
from fairlead.limiter.mps_daemon import find_daemon


@dataclass(frozen=True, slots=True)
class MpsState:
    """What MPS finds on a machine."""

    gpus: tuple[str, ...] = ()
    """The names of those that it can serve."""
    program: str | None = None
    """The daemon's program; None: it is not installed."""
    outside: str = ""
    """A daemon that fairlead did not start, in words; empty: none."""


def read_mps(gpus: Sequence[str], environ: Mapping[str, str], default: str = DEFAULT_FOLDER) -> MpsState:
    """Look for the daemon's program, and for a daemon where programs look that name no folder."""
    folder = environ.get(PIPE) or default
    daemon, outside = find_daemon(folder), ""
    if daemon is not None:
        try:
            owner = user_name(os.stat(f"/proc/{daemon.pid}").st_uid)
            outside = f"process {daemon.pid} of user {owner}, in {folder}"
        except OSError:  # it has just ended
            outside = ""
    return MpsState(tuple(gpus), control_program(environ), outside)


def examine_mps(state: MpsState) -> list[Finding]:
    """Return the findings about MPS; none for a machine without a GPU that it can serve."""
    return [Finding("mps", result.verdict, result.text, result.todo) for result in _results(state)]


def _results(state: MpsState) -> list[CheckResult]:
    if not state.gpus:
        return []
    if state.outside:
        text = f"an MPS daemon runs outside fairlead ({state.outside}): jobs that do not ask for MPS use it"
        todo = f"end it as that user, `echo quit | {PROGRAM}`: jobs of other users wait while its clients run"
        return [warn(text, todo)]
    if state.program is None:
        return [ok(f"{PROGRAM} is not installed: jobs cannot ask for --limiter mps")]
    return [ok(f"jobs can ask for --limiter mps on {count(state.gpus, 'GPU')}: {some(state.gpus)}")]
