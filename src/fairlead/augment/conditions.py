"""Whether a session is ready, and what to do if it is not; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead.augment.place import LocalSession

_AWAY: Final = 300.0
"""Seconds after which a device that has not reported is away: it reports every minute."""
_STARTING: Final = ("queued", "starting")


@dataclass(frozen=True, slots=True)
class SessionCondition:
    """One thing that a session needs, and how it is."""

    name: str
    holds: bool
    message: str


@dataclass(frozen=True, slots=True)
class SessionView:
    """What was observed of a session."""

    session: LocalSession
    keeper: bool
    report: Mapping[str, Any] | None
    """What the store says; None: it does not answer."""
    job: Mapping[str, Any] | None
    """The application's job."""
    problem: str
    """The last line of the store's log."""


def conditions(view: SessionView, now: float) -> tuple[SessionCondition, ...]:
    """Return the conditions of a session."""
    found = [_store(view), *_device(view, now)]
    if view.session.spec.command:
        found.append(_application(view))
    if (difference := _difference(view)) is not None:
        found.append(difference)
    return tuple(found)


def is_ready(found: tuple[SessionCondition, ...]) -> bool:
    """Return whether the session serves its device: the device itself may be away."""
    return all(each.holds for each in found if each.name in ("StoreServes", "ApplicationRuns"))


def _store(view: SessionView) -> SessionCondition:
    name = view.session.spec.name
    if not view.keeper:
        return SessionCondition(
            "StoreServes", False, f"stopped: `fairlead augment create {name} --local` starts it again"
        )
    if view.report is None:
        return SessionCondition(
            "StoreServes", False, f"the store does not answer: {view.problem or 'no reason'}"
        )
    if frozen := view.report.get("frozen"):
        return SessionCondition("StoreServes", True, f"writes are frozen: {frozen}")
    return SessionCondition("StoreServes", True, view.session.url)


def _device(view: SessionView, now: float) -> tuple[SessionCondition, ...]:
    if view.report is None:
        return ()
    seen, device = view.report.get("last_seen"), view.session.spec.device
    if seen is None:
        return (
            SessionCondition(
                "DeviceJoined",
                False,
                f"{device} has not joined: `fairlead augment invite {view.session.spec.name} --local`",
            ),
        )
    if now - seen > _AWAY:
        return (SessionCondition("DeviceJoined", False, f"{device} is away: seen {round(now - seen)} s ago"),)
    return (SessionCondition("DeviceJoined", True, f"{device} was seen {max(0, round(now - seen))} s ago"),)


def _application(view: SessionView) -> SessionCondition:
    job = view.job
    if job is None:
        return SessionCondition(
            "ApplicationRuns", False, "its job is not known any more: create the session again"
        )
    state = str(job.get("state"))
    if state == "running":
        return SessionCondition("ApplicationRuns", True, f"job {view.session.job} runs")
    if state in _STARTING:
        return SessionCondition(
            "ApplicationRuns", False, f"job {view.session.job} waits: {job.get('reason') or state}"
        )
    return SessionCondition(
        "ApplicationRuns",
        False,
        f"job {view.session.job} {state}: `fairlead logs {view.session.job}` shows its output",
    )


def _difference(view: SessionView) -> SessionCondition | None:
    """Return whether the application here is the one on the device; None: one of them is not known."""
    mine = view.session.spec.digest
    report = (view.report or {}).get("report")
    theirs = report.get("digest") if isinstance(report, dict) else None
    if not mine or not theirs:
        return None
    if mine == theirs:
        return SessionCondition("SameApplication", True, mine)
    return SessionCondition(
        "SameApplication", False, f"the device has {theirs}, and here is {mine}: update one of them"
    )
