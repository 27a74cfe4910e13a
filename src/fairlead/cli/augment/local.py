"""`fairlead augment ... --local`: sessions of this machine, without a cluster."""

import argparse
import os
import shutil
import time
from typing import TYPE_CHECKING, Final

from fairlead.cli.augment.local_spec import check_same, parse_size, slow_folder, wanted_spec
from fairlead.cli.augment.local_view import LIST, document, lines_of, row, view_of
from fairlead.cli.output.listing import sorted_by
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show, show_list
from fairlead.errors import FairleadError
from fairlead.units import Bytes, format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairlead.augment.place import LocalSession, SessionPlace

_START_SECONDS: Final = 20.0
_POLL: Final = 0.05


def add_local(command: argparse.ArgumentParser) -> None:
    """Add the option that chooses sessions of this machine."""
    command.add_argument("--local", action="store_true", help="a session of this machine, without a cluster")


def add_create(command: argparse.ArgumentParser) -> None:
    """Add the options of a session that is made on this machine."""
    add_local(command)
    command.add_argument(
        "--listen",
        metavar="ADDR:PORT",
        default="127.0.0.1:0",
        help="with --local: where the store serves (default: %(default)s; 0: any free port, which is kept)",
    )
    command.add_argument("--slow", metavar="DIR", help="with --local and --fast: the folder of the slow tier")


def run_create(options: argparse.Namespace) -> int:
    """Make a session, or start one that was stopped."""
    from fairlead.augment.make import make_session
    from fairlead.augment.place import SessionPlace
    from fairlead.settings import parse_address

    place = SessionPlace.of(os.environ, options.name)
    spec = wanted_spec(options)
    slow = slow_folder(options)
    is_new = not place.exists()
    if is_new:
        session = make_session(place, spec, parse_address(options.listen), options.host, slow, os.getcwd())
    else:
        session = place.read()
        check_same(session, spec, slow)
    try:
        session = _start(place, session)
    except FairleadError:
        if is_new:  # nothing is left of a session that never ran
            _remove(place)
        raise
    view = view_of(place)
    if options.output != "table":
        show(document(view), options.output)
    else:
        print(f"session {place.name} for {spec.device}: {format_bytes(spec.storage.size)} at {session.url}")
        print(f"its files are in {place.data}")
        print(f"`fairlead augment invite {place.name} --local` prints what the device needs to join")
    return 0


def run_list(options: argparse.Namespace) -> int:
    """List the sessions of this user on this machine."""
    from fairlead.augment.place import SessionPlace, session_names

    views = [view_of(SessionPlace.existing(os.environ, name)) for name in session_names(os.environ)]
    views = sorted_by(views, options.sort_by, LIST, row, document)
    if options.output in ("json", "yaml"):
        show([document(view) for view in views], options.output)
        return 0
    rows = [row(view) for view in views]
    headers = not options.no_headers
    show_list(LIST, rows, options.output, headers=headers, empty="no sessions", color=options.color)
    return 0


def run_show(options: argparse.Namespace) -> int:
    """Show a session; 1 if it is not ready."""
    from fairlead.augment.conditions import conditions, is_ready
    from fairlead.augment.place import SessionPlace

    view = view_of(SessionPlace.existing(os.environ, options.name))
    found = conditions(view, time.time())
    if options.output != "table":
        show(document(view), options.output)
    else:
        print("\n".join(lines_of(view, found)))
    return 0 if is_ready(found) else 1


def run_delete(options: argparse.Namespace) -> int:
    """Stop a session and remove it; its data stays, unless it is to be deleted."""
    from fairlead.augment.application import cancel_application
    from fairlead.augment.place import SessionPlace

    place = SessionPlace.existing(os.environ, options.name)
    session = place.read()
    if session.job:
        cancel_application(session.job, os.environ)
    folders = [place.data, *([session.slow] if session.slow else [])]
    _remove(place)
    if options.output != "table":
        kept = [] if options.delete_data else folders
        show({"augmentation": place.name, "deleted": True, "kept_data": kept}, options.output)
    if not options.delete_data:
        _say(options, f"session {place.name} is deleted; its data stays in {' and '.join(folders)}")
        return 0
    for folder in folders:
        shutil.rmtree(folder)
    os.rmdir(place.folder)
    _say(options, f"session {place.name} and its data are deleted")
    return 0


def _say(options: argparse.Namespace, line: str) -> None:
    if options.output == "table":
        print(line)


def _remove(place: "SessionPlace") -> None:
    """Stop the programs of a session and remove all but its data."""
    from fairlead.augment.control import stop_keeper

    stop_keeper(place)
    os.unlink(place.path("session.json"))  # from here on there is no session: the rest can be removed again
    for entry in os.listdir(place.folder):
        path = place.path(entry)
        if path != place.data:
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def run_resize(options: argparse.Namespace) -> int:
    """Change the quota, at once; never below what is used. The mover of the tiers starts again by its own."""
    from fairlead.augment.control import reload_keeper
    from fairlead.augment.place import SessionPlace, resized
    from fairlead.augment.visit import read_report
    from fairlead.errors import SessionError

    place = SessionPlace.existing(os.environ, options.name)
    session, size = place.read(), parse_size("SIZE", options.size)
    fast = _fast_size(options, session)
    if fast is not None and fast > size:
        raise SessionError(f"--fast {options.fast} is more than {format_bytes(size)}", "choose less")
    report = read_report(place, session)
    if report is None:
        raise SessionError(f"the store of session {place.name} does not answer", "start it, then resize it")
    used = int(report["used"])
    if size < used:
        raise SessionError(
            f"{format_bytes(size)} is less than the {format_bytes(used)} that are used", "delete files first"
        )
    free = shutil.disk_usage(place.data).free
    if size - used > free:
        raise SessionError(
            f"{format_bytes(size)} does not fit: {format_bytes(free)} are free beside the used", "choose less"
        )
    place.write_text("quota", f"{size}\n")
    place.write(resized(session, size, fast))
    if fast is not None:
        reload_keeper(place)
    if options.output != "table":
        show(document(view_of(place)), options.output)
        return 0
    print(f"session {place.name}: {format_bytes(size)}, {format_bytes(used)} of them used")
    return 0


def _fast_size(options: argparse.Namespace, session: "LocalSession") -> Bytes | None:
    """Return the capacity of the fast tier that is asked for; None: it stays."""
    from fairlead.errors import SessionError

    if options.fast is None:
        return None
    if not session.slow:
        raise SessionError(
            f"--fast: session {session.spec.name} has one tier",
            "two are chosen when it is made: --fast SIZE --slow DIR",
        )
    return parse_size("--fast", options.fast)


def run_rotate(options: argparse.Namespace) -> int:
    """Replace the session's token, and let devices replace their credentials."""
    import secrets

    from fairlead.augment.place import SessionPlace
    from fairlead.augment.visit import ask_to_rotate

    place = SessionPlace.existing(os.environ, options.name)
    devices = ask_to_rotate(place, place.read())
    previous = place.read_text("token").splitlines()[:1]
    place.write_text("token", "\n".join([secrets.token_urlsafe(32), *previous]) + "\n")
    if options.output != "table":
        show(document(view_of(place)), options.output)
        return 0
    print(f"the token of session {place.name} is replaced; the one before is valid until the next rotation")
    print(f"devices replace theirs at their next report: {', '.join(devices) or 'none has joined'}")
    return 0


def run_invite(options: argparse.Namespace, life: float) -> int:
    """Print an invite to a session of this machine."""
    from fairlead.augment.place import SessionPlace
    from fairlead.augment.visit import session_key
    from fairlead.cli.augment.invite import print_invite
    from fairlead.errors import SessionError
    from fairlead.invite import mint_invite

    if options.name is None or options.key_file:
        raise SessionError(
            "--local needs a session alone", "`fairlead augment list --local` shows their names"
        )
    place = SessionPlace.existing(os.environ, options.name)
    session = place.read()
    expires = time.time() + life
    token = mint_invite(session_key(place), expires, options.device or session.spec.device)
    url = options.url or f"{session.url}/"
    print_invite(options, url, token, f"sha256:{session.fingerprint}", expires)
    return 0


def _start(place: "SessionPlace", session: "LocalSession") -> "LocalSession":
    """Start the programs of a session and its application, and wait until the store answers."""
    from dataclasses import replace

    from fairlead.augment.application import job_document, submit_application
    from fairlead.augment.control import keeper_process, last_problem, start_keeper
    from fairlead.augment.visit import read_report
    from fairlead.errors import SessionError

    if keeper_process(place) is None:  # a store of a keeper that was killed may still be about to end
        _wait(lambda: read_report(place, session) is None)
    start_keeper(place, os.environ)
    with progress(f"starting session {place.name}"):
        answers = _wait(lambda: read_report(place, session) is not None)
    if not answers:
        why = last_problem(place) or ("no reason" if keeper_process(place) else "its keeper has ended")
        raise SessionError(
            f"the store of session {place.name} does not answer: {why}", "mend that, and repeat"
        )
    alive = session.job and (job_document(session.job, os.environ) or {}).get("state") in _ALIVE
    if session.spec.command and not alive:
        session = replace(session, job=submit_application(place, session, os.environ))
        place.write(session)
    return session


_ALIVE: Final = ("queued", "starting", "running")


def _wait(holds: "Callable[[], bool]") -> bool:
    """Wait until something holds; False: not in time."""
    end = time.monotonic() + _START_SECONDS
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(_POLL)
    return True
