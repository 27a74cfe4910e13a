"""`fairlead serve store`: the files of one device, over WebDAV and plain HTTP."""

import argparse
import sys
from typing import Any

from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError
from fairlead.settings import Address, parse_address, readable, tls_files
from fairlead.units import parse_bytes

LISTEN = "127.0.0.1:19815"


def add(programs: Any) -> None:
    """Add the program to the command line."""
    command = programs.add_parser(
        "store",
        help="serve a folder to one device: WebDAV, and PUT and GET that are whole or not at all",
        description="Serve a folder over WebDAV and plain HTTP to who has the token. An upload gets its name "
        "when it is complete, verified and on the disk. The address is printed once it listens.",
    )
    command.add_argument("--root", metavar="DIR", required=True, help="the folder that is served, at /")
    shared.add_listen(command, LISTEN)
    command.add_argument(
        "--token-file",
        metavar="FILE",
        required=True,
        help="a file with a token in each line, as a bearer token or as the password of any user; read again "
        "when it changes",
    )
    shared.add_tls(command)
    command.add_argument(
        "--metrics",
        metavar="ADDRESS",
        help="serve the metrics for Prometheus there, at /metrics: a port of 127.0.0.1, or an address",
    )
    _add_limits(command)
    _add_files(command)
    command.set_defaults(run=run)


def _add_limits(command: argparse.ArgumentParser) -> None:
    command.add_argument("--quota", metavar="SIZE", help="the most bytes of all files, such as 10Gi")
    command.add_argument(
        "--quota-file", metavar="FILE", default="", help="the quota in a file; read again when it changes"
    )
    command.add_argument(
        "--rate", metavar="N", type=float, help="the most requests a second of one holder (default: no limit)"
    )
    command.add_argument(
        "--threads",
        metavar="N",
        type=int,
        default=32,
        help="the most requests in work (default: %(default)s)",
    )
    command.add_argument(
        "--no-sync",
        action="store_true",
        help="acknowledge uploads that are not on the disk yet: faster, and a power cut may lose them",
    )


def _add_files(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--also",
        metavar="DIR",
        action="append",
        default=[],
        help="a folder to which links in the root may lead, as that of a slow tier; may be repeated",
    )
    command.add_argument(
        "--trace", metavar="FILE", default="", help="append each access: time, key, bytes and op"
    )
    command.add_argument(
        "--freeze-file",
        metavar="FILE",
        default="",
        help="while it exists, refuse writes with the reason that it holds",
    )
    command.add_argument(
        "--state",
        metavar="DIR",
        default="",
        help="where properties and credentials of devices are kept (default: below the root)",
    )
    command.add_argument(
        "--invite-key-file", metavar="FILE", default="", help="the key of invites, for devices that join"
    )
    command.add_argument(
        "--session", metavar="NAME", default="", help="the session's name, for devices that join"
    )


def run(options: argparse.Namespace) -> int:
    """Run the store."""
    from fairlead.store.http.limits import ServerLimits
    from fairlead.store.program import run as serve
    from fairlead.store.settings import StoreFiles, StoreSettings

    if options.quota is not None and options.quota_file:
        raise SettingsError("--quota and --quota-file are both set", "set one of them")
    if options.rate is not None and not 0.01 <= options.rate <= 1e6:
        raise SettingsError(f"--rate {options.rate}: out of range", "choose from 0.01 to 1000000 a second")
    if not 2 <= options.threads <= 256:
        raise SettingsError(f"--threads {options.threads}: out of range", "choose from 2 to 256")
    files = StoreFiles(
        tuple(options.also),
        options.trace,
        options.freeze_file,
        options.quota_file,
        options.state,
        options.invite_key_file,
        options.session,
    )
    settings = StoreSettings(
        options.root,
        parse_address(options.listen),
        readable("token-file", options.token_file),
        tls_files(options.tls_cert, options.tls_key),
        quota=parse_bytes(options.quota) if options.quota is not None else None,
        rate=options.rate,
        sync=not options.no_sync,
        limits=ServerLimits(threads=options.threads),
        files=files,
        metrics=_metrics(options.metrics),
    )
    serve(settings, _log)
    return 0


def _metrics(text: str | None) -> Address | None:
    if text is None:
        return None
    return parse_address(f"127.0.0.1:{text}" if text.isdecimal() else text)


def _log(line: str) -> None:
    print(f"fairlead store: {line}", file=sys.stderr, flush=True)
