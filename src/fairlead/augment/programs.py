"""The programs of a session, as command lines; pure."""

from dataclasses import dataclass

from fairlead.augment.place import LocalSession, SessionPlace
from fairlead.settings import Address


@dataclass(frozen=True, slots=True)
class SessionProgram:
    """A program that runs as long as its session."""

    name: str
    words: tuple[str, ...]
    """What follows `fairlead`."""


def session_programs(place: SessionPlace, session: LocalSession) -> tuple[SessionProgram, ...]:
    """Return the programs of a session: its store, and with two tiers what moves files between them."""
    store = (
        *("serve", "store", "--root", place.data, "--listen", str(Address(session.host, session.port))),
        *("--token-file", place.path("token"), "--tls-cert", place.path("tls.crt")),
        *("--tls-key", place.path("tls.key"), "--quota-file", place.path("quota")),
        *("--state", place.path("state"), "--freeze-file", place.path("freeze")),
        *("--invite-key-file", place.path("invite.key"), "--session", place.name),
    )
    fast = session.spec.storage.fast
    if not session.slow or fast is None:
        return (SessionProgram("store", store),)
    trace = place.path("trace.csv")
    tier = (
        "serve",
        "tier",
        "--fast",
        place.data,
        "--slow",
        session.slow,
        "--capacity",
        str(fast),
        "--trace",
        trace,
    )
    return (
        SessionProgram("store", (*store, "--also", session.slow, "--trace", trace)),
        SessionProgram("tier", tier),
    )
