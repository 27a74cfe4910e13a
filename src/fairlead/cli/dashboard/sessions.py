"""The sessions of this machine, each with the job that its device and its server work on, as rows."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.augment.job_view import gain_text, site_rate
from fairlead.dashboard.row_types import AugmentationRow
from fairlead.errors import FairleadError

if TYPE_CHECKING:
    from fairlead.augment.place import SessionPlace
    from fairlead.submission.client import StoreDoor

_PERIOD: Final = 2.0
"""Seconds for which what the stores said counts."""
Json = Mapping[str, Any]


class SessionRows:
    """Reads the sessions of this user, at most every two seconds."""

    def __init__(self, environ: Mapping[str, str], user: str) -> None:
        self._environ = environ
        self._user = user
        self._read: tuple[float, Sequence[AugmentationRow]] = (float("-inf"), ())

    def __call__(self) -> Sequence[AugmentationRow]:
        """Return a row for each session; this may wait for its store."""
        from fairlead.augment.place import SessionPlace, session_names

        if time.monotonic() > self._read[0] + _PERIOD:
            places = [SessionPlace.of(self._environ, name) for name in session_names(self._environ)]
            self._read = time.monotonic(), [self._row(place) for place in places]
        return self._read[1]

    def _row(self, place: "SessionPlace") -> AugmentationRow:
        from fairlead.cli.augment.local_view import document, view_of

        try:
            session = document(view_of(place))
        except FairleadError as error:  # deleted since its name was read, or of a newer version
            return unreadable_row(place.name, self._user, str(error))
        return session_row(
            session, _running_job(place) if session["used_bytes"] is not None else None, self._user
        )


def session_row(session: Json, job: Json | None, user: str) -> AugmentationRow:
    """Return the row of a session, with its running job. Pure."""
    missing = [each["message"] for each in session["conditions"] if not each["status"]]
    return AugmentationRow(
        key=f"{user}/{session['augmentation']}",
        namespace=user,
        name=session["augmentation"],
        state="ready" if session["ready"] else "waiting",
        reason=missing[0] if missing else "",
        device=session["device"],
        unit=_unit(session),
        storage_bytes=session["size_bytes"],
        used_bytes=session["used_bytes"],
        device_rate=_rate(job, "device"),
        server_rate=_rate(job, "pod"),
        progress=_progress(job),
        bound=(gain_text(job) or None) if job else None,
        job=(job["name"] or job["job"]) if job else None,
        command=f"fairlead augment show {session['augmentation']} --local",
    )


def unreadable_row(name: str, user: str, why: str) -> AugmentationRow:
    """Return the row of a session that cannot be read."""
    command = f"fairlead augment show {name} --local"
    return AugmentationRow(
        key=f"{user}/{name}", namespace=user, name=name, state="unknown", reason=why, command=command
    )


def running_job(jobs: Sequence[Json]) -> Json | None:
    """Return the newest job that runs; they come the newest first."""
    return next((each for each in jobs if each["state"] in ("running", "waiting")), None)


def _running_job(place: "SessionPlace") -> Json | None:
    with suppress(FairleadError, OSError), _door(place).client() as client:
        return running_job(client.jobs())
    return None


def _door(place: "SessionPlace") -> "StoreDoor":
    from fairlead.submission.doors import session_door

    return session_door(place.read().url, place.folder, place.name)


def _unit(session: Json) -> str:
    memory = session["accelerator_memory_bytes"]
    return f"{memory >> 20} MiB of an accelerator" if memory else ""


def _rate(job: Json | None, site: str) -> float | None:
    return (site_rate(job, site) or None) if job else None


def _progress(job: Json | None) -> float | None:
    """Return the share of inputs that have an answer; None where more inputs may come."""
    if job is None or not job["complete"] or not job["counts"]["inputs"]:
        return None
    return float((job["counts"]["done"] + job["counts"]["failed"]) / job["counts"]["inputs"])


def open_sessions(user: str) -> SessionRows | None:
    """Return the reader of this user's sessions; None where the parts for sessions are not installed."""
    try:
        import fairlead.augment.conditions
        import fairlead.submission.doors  # noqa: F401
    except ImportError:
        return None
    return SessionRows(os.environ, user)
