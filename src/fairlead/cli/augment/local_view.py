"""Sessions of this machine as lists, lines and documents."""

import os
import shlex
import time
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.table import Column, Fit
from fairlead.units import format_bytes

if TYPE_CHECKING:
    from fairlead.augment.conditions import SessionCondition, SessionView
    from fairlead.augment.place import SessionPlace

LIST: Final = (
    Column("NAME", Fit.KEEP, identity=True),
    *(Column(each, Fit.KEEP) for each in ("DEVICE", "SIZE", "USED", "READY")),
    Column("STATE", Fit.PROSE),
    Column("URL", Fit.KEEP, wide=True),
)


def view_of(place: "SessionPlace") -> "SessionView":
    """Return what can be observed of a session now."""
    from fairlead.augment.application import job_document
    from fairlead.augment.conditions import SessionView
    from fairlead.augment.control import keeper_process, last_problem
    from fairlead.augment.visit import read_report

    session = place.read()
    keeper = keeper_process(place) is not None
    report = read_report(place, session) if keeper else None
    job = job_document(session.job, os.environ) if session.job else None
    return SessionView(session, keeper, report, job, last_problem(place))


def document(view: "SessionView") -> "dict[str, Any]":
    """Return a session as a document."""
    from fairlead.augment.conditions import conditions, is_ready

    session, spec, found = view.session, view.session.spec, conditions(view, time.time())
    return {
        "augmentation": spec.name,
        "device": spec.device,
        "url": session.url,
        "fingerprint": f"sha256:{session.fingerprint}",
        "size_bytes": spec.storage.size,
        "fast_bytes": spec.storage.fast,
        "used_bytes": view.report["used"] if view.report else None,
        "command": list(spec.command),
        "accelerator_memory_bytes": spec.accelerator_memory,
        "digest": spec.digest,
        "job": session.job or None,
        "ready": is_ready(found),
        "conditions": [{"type": each.name, "status": each.holds, "message": each.message} for each in found],
        "report": view.report.get("report") if view.report else None,
    }


def row(view: "SessionView") -> "tuple[str, ...]":
    """Return a session as a row of the list."""
    from fairlead.augment.conditions import conditions, is_ready

    found, spec = conditions(view, time.time()), view.session.spec
    used = format_bytes(int(view.report["used"])) if view.report else "-"
    state = next((each.message for each in found if not each.holds), "ready")
    ready = "yes" if is_ready(found) else "no"
    return spec.name, spec.device, format_bytes(spec.storage.size), used, ready, state, view.session.url


def lines_of(view: "SessionView", found: "tuple[SessionCondition, ...]") -> "list[str]":
    """Return a session as lines for people."""
    spec = view.session.spec
    used = f", {format_bytes(int(view.report['used']))} used" if view.report else ""
    lines = [
        f"session {spec.name} for {spec.device}",
        f"store: {view.session.url}, {format_bytes(spec.storage.size)}{used}",
        f"fingerprint: sha256:{view.session.fingerprint}",
    ]
    if spec.command:
        lines.append(f"application: {shlex.join(spec.command)}")
    lines += [f"{each.name}: {'yes' if each.holds else 'no'}, {each.message}" for each in found]
    return lines
