"""`fairlead device join` and `rotate`: a credential of this machine's own."""

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from fairlead.cli.device.options import add_name, place_of
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show
from fairlead.cli.shell import options as shared
from fairlead.units import format_bytes, pluralize

if TYPE_CHECKING:
    from fairlead.device.membership import Membership
    from fairlead.device.place import DevicePlace
    from fairlead.device.report import DeviceReport


def add(verbs: Any) -> None:
    """Add the verbs."""
    command = verbs.add_parser(
        "join",
        help="join a session with an invite",
        description="Join the session whose owner printed the address, the token and the fingerprint with "
        "`fairlead augment invite`. The machine is measured, the store's certificate is pinned, and the "
        "token is exchanged for a credential that rotates. Joining again keeps the queue.",
    )
    command.add_argument("url", metavar="URL", help="the address of the store")
    command.add_argument(
        "--token", metavar="TOKEN", required=True, help="the invite; -: read it from the standard input"
    )
    command.add_argument(
        "--fingerprint", metavar="SHA256", help="of the store's certificate; only loopback may do without"
    )
    command.add_argument(
        "--name", metavar="NAME", help="the device's name (default: the invite's, else the host name)"
    )
    application = command.add_mutually_exclusive_group()
    application.add_argument(
        "--command", metavar="COMMAND", dest="program", help="the application here; its digest is reported"
    )
    application.add_argument(
        "--image", metavar="DIGEST", help="the application's image here, as NAME@sha256:... or sha256:..."
    )
    shared.add_output(command)
    command.set_defaults(run=run)
    rotate = verbs.add_parser(
        "rotate",
        help="replace the credential now",
        description="Replace the credential by a new one. The agent does this by itself, every week.",
    )
    add_name(rotate)
    rotate.set_defaults(run=_rotate)


def run(options: argparse.Namespace) -> int:
    """Join."""
    from fairlead.device.application import command_digest, image_digest, split_command
    from fairlead.device.membership import parse_url
    from fairlead.device.place import DevicePlace
    from fairlead.device.report import first_report, read_machine
    from fairlead.device.session import StoreAddress, join
    from fairlead.device.wakeup import wake

    token = sys.stdin.readline().strip() if options.token == "-" else options.token.strip()  # noqa: S105
    address = StoreAddress(parse_url(options.url), _fingerprint(options))
    place = DevicePlace.of(os.environ, options.name or _default_name(token))
    _check_queue(place, address.url)
    program = _absolute(split_command(options.program)) if options.program is not None else ""
    application = {"program": program, "image": image_digest(options.image) if options.image else ""}
    digest = application["image"] or (command_digest(split_command(program)) if program else None)
    place.make()
    with progress("measuring this machine"):
        report = first_report(place.name, place, read_machine(), digest)
    membership = join(place, address, token, report, application)
    with progress("measuring the link"):
        report = _measured(place, report)
    wake(place)
    _show(options, membership, report)
    return 0


def _fingerprint(options: argparse.Namespace) -> str:
    from fairlead.device.membership import parse_fingerprint
    from fairlead.errors import DeviceError

    if options.fingerprint:
        return parse_fingerprint(options.fingerprint)
    if options.url.startswith("https:"):
        raise DeviceError(
            "the certificate of the store cannot be checked without its fingerprint",
            "add --fingerprint with the sha256:... that `fairlead augment invite` printed",
        )
    return ""


def _default_name(token: str) -> str:
    from fairlead.invite import Invite, read_invite

    invite = read_invite(token)
    if isinstance(invite, Invite) and invite.device:
        return invite.device
    host = "".join(char if char.isalnum() and char.isascii() else "-" for char in os.uname().nodename.lower())
    return host.strip("-")[:63].strip("-") or "device"


def _check_queue(place: "DevicePlace", url: str) -> None:
    """Refuse to send to one session what was queued for another."""
    from fairlead.device.queue import UploadQueue
    from fairlead.errors import DeviceError

    if not place.is_joined() or place.read_membership().url == url:
        return
    with UploadQueue(place) as queue:
        waiting = queue.totals()[0]
    if waiting:
        raise DeviceError(
            f"{pluralize(waiting, 'upload')} of device {place.name} wait for {place.read_membership().url}",
            "`fairlead device sync` sends them; or join with another --name",
        )


def _absolute(words: "list[str]") -> str:
    """Return a command line whose files are named from the root: the agent runs in another folder."""
    import shlex

    named = [os.path.abspath(word) if os.path.isfile(word) else word for word in words[1:]]
    first = os.path.abspath(words[0]) if os.sep in words[0] else words[0]
    return shlex.join([first, *named])


def _measured(place: "DevicePlace", report: "DeviceReport") -> "DeviceReport":
    """Measure the link, and report it; a failure here leaves a device that has joined."""
    from contextlib import suppress
    from dataclasses import replace

    from fairlead.device.contact import Contact, save_contact
    from fairlead.device.link import measure_link
    from fairlead.device.report import save_report
    from fairlead.device.session import SessionClient
    from fairlead.errors import TransferError

    with suppress(TransferError), SessionClient(place) as client:
        report = replace(report, link=measure_link(client.connection))
        session = client.report(report)
        now = time.time()
        save_contact(place, Contact(now, now, session=session))
    save_report(place, report)
    return report


def _show(options: argparse.Namespace, membership: "Membership", report: "DeviceReport") -> None:
    if options.output != "table":
        show({"device": membership.name, "url": membership.url, "session": membership.session,
              "expires": membership.expires, "report": report.to_json()}, options.output)  # fmt: skip
        return
    session = f" of session {membership.session}" if membership.session else ""
    print(f"joined {membership.url}{session} as {membership.name}")
    for line in report_lines(report.to_json()):
        print(line)
    print("`fairlead device put FILE` uploads; `fairlead device unit` prints a systemd unit for the agent")


def report_lines(report: "dict[str, Any]") -> "list[str]":
    """Return what a device measured of itself, for people."""
    machine, link, storage = report["machine"], report["link"], report["storage"]
    accelerators = [acc["name"] for acc in machine["accelerators"]]
    memory = format_bytes(machine["memory_bytes"]) if machine["memory_bytes"] else "unknown"
    cores = pluralize(machine["cores"], "core")
    lines = [
        f"machine: {machine['board'] or machine['arch']}, {cores}, {memory} of RAM",
        f"accelerators: {', '.join(accelerators) or 'none'}",
        f"storage: {format_bytes(storage['free_bytes'])} free",
    ]
    if link:
        up, down = (format_bytes(round(link[name])) for name in ("up_bytes_per_s", "down_bytes_per_s"))
        lines.append(f"link: {link['round_trip_s'] * 1000:.1f} ms round trip, {up}/s up, {down}/s down")
    if report["digest"]:
        lines.append(f"application: {report['digest']}")
    return lines


def _rotate(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from fairlead.device.report import load_report
    from fairlead.device.session import SessionClient
    from fairlead.device.wakeup import wake
    from fairlead.errors import DeviceError

    place = place_of(options)
    with place.sender_lock() as held:
        if not held:
            place.write_membership(replace(place.read_membership(), rotate_after=1.0))
            wake(place)
            print("the running agent replaces the credential")
            return 0
        with SessionClient(place) as client:
            client.confirm()
            client.rotate()
            report = load_report(place)
            if report is None:
                raise DeviceError(f"{place.report}: it cannot be read", "join again: the queue is kept")
            client.report(report)
    print("the credential was replaced; the old one is no longer valid")
    return 0
