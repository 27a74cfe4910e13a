"""`fairlead device status`: the session, the queue, and what failed."""

import argparse
import os
import time
from typing import TYPE_CHECKING, Any

from fairlead.cli.device.join import report_lines
from fairlead.cli.device.options import add_name
from fairlead.cli.output.show import show
from fairlead.cli.shell import options as shared
from fairlead.units import format_bytes, format_duration, pluralize

if TYPE_CHECKING:
    from fairlead.device.place import DevicePlace

_MOST_UPLOADS = 100
"""Uploads that are listed; the totals count all."""


def add(verbs: Any) -> None:
    """Add the verb."""
    command = verbs.add_parser(
        "status",
        help="show the session, the queue and what failed",
        description="Show the session of each device that is joined on this machine, its queue, conflicts, "
        "and when the store was last reached. The store is not asked.",
    )
    add_name(command)
    shared.add_output(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show it."""
    from fairlead.device.place import DevicePlace, device_names

    names = [options.name] if options.name is not None else device_names(os.environ)
    documents = [_document(DevicePlace.joined(os.environ, name)) for name in names or [None]]
    if options.output != "table":
        show({"devices": documents}, options.output)
        return 0
    print("\n\n".join("\n".join(_lines(document)) for document in documents))
    return 0


def _document(place: "DevicePlace") -> "dict[str, Any]":
    from fairlead.device.contact import load_contact
    from fairlead.device.queue import UploadQueue
    from fairlead.device.report import load_report
    from fairlead.device.wakeup import is_heard

    membership, contact, report = place.read_membership(), load_contact(place), load_report(place)
    with UploadQueue(place) as queue:
        waiting, refused, size = queue.totals()
        uploads = queue.uploads()[:_MOST_UPLOADS]
        conflicts = queue.conflicts()[:_MOST_UPLOADS]
    return {
        "device": place.name,
        "session": membership.session,
        "url": membership.url,
        "expires": membership.expires,
        "agent": is_heard(place),
        "store": {"reached": contact.reached, "problem": contact.problem, **dict(contact.session)},
        "queue": {"waiting": waiting, "refused": refused, "bytes": size},
        "uploads": [
            {
                "path": each.path,
                "bytes": each.size,
                "queued": each.queued,
                "tries": each.tries,
                "refused": each.refused,
                "problem": each.problem,
            }
            for each in uploads
        ],
        "conflicts": [{"path": each.path, "kept": each.kept, "time": each.time} for each in conflicts],
        "report": report.to_json() if report else None,
    }


def _lines(document: "dict[str, Any]") -> "list[str]":
    store, queue, now = document["store"], document["queue"], time.time()
    reached = f"reached {_ago(store['reached'], now)}" if store["reached"] else "not reached yet"
    quota = f" of {format_bytes(store['quota'])}" if store.get("quota") is not None else ""
    used = f", {format_bytes(store['used'])}{quota} used" if store.get("used") is not None else ""
    lines = [
        f"device {document['device']}: {document['session'] or 'session'} at {document['url']}",
        f"store: {reached}{used}",
        *([f"problem: {store['problem']}"] if store["problem"] else []),
        *([f"writes are frozen: {store['frozen']}"] if store.get("frozen") else []),
        f"agent: {'runs' if document['agent'] else 'does not run: uploads are sent by put and sync'}",
        f"credential: valid until {_date(document['expires'])}",
        *(report_lines(document["report"]) if document["report"] else []),
        f"queue: {pluralize(queue['waiting'], 'upload')}, {format_bytes(queue['bytes'])}",
    ]
    for upload in document["uploads"]:
        state = "refused" if upload["refused"] else "waits"
        problem = f": {upload['problem']}" if upload["problem"] else ""
        lines.append(f"  {state} {upload['path']}, {format_bytes(upload['bytes'])}{problem}")
    for conflict in document["conflicts"]:
        lines.append(f"conflict: {conflict['path']}: this device's version is {conflict['kept']}")
    return lines


def _ago(then: float, now: float) -> str:
    return f"{format_duration(round(now - then))} ago" if now - then >= 1 else "just now"


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(seconds)) if seconds else "it is revoked"
