"""`fairlead augment invite`: what a device needs to join a session."""

import argparse
import time
from typing import TYPE_CHECKING, Any

from fairlead.cli.augment import local
from fairlead.cli.augment.invite_cluster import InvitedSession, read_session
from fairlead.cli.output.show import show
from fairlead.cli.shell import options as shared
from fairlead.cli.shell import resources

if TYPE_CHECKING:
    from fairlead.units import Seconds


def add(verbs: Any) -> None:
    """Add the verb."""
    command = verbs.add_parser(
        "invite",
        help="print the address, a one-time token and the certificate's fingerprint for a device",
        description="Print what a device needs to join a session: the address of its store, a token that is "
        "good for one join, and the fingerprint of the store's certificate. The token is signed with the "
        "session's key: the store need not be reached.",
    )
    command.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help="an augmentation, which has address, key and certificate (default: the options)",
    )
    local.add_local(command)
    resources.add_cluster(command)
    command.add_argument("--url", metavar="URL", help="the address of the store, as devices reach it")
    command.add_argument(
        "--key-file", metavar="FILE", help="the key of invites that `fairlead serve store` has"
    )
    command.add_argument(
        "--cert", metavar="FILE", help="the store's certificate (PEM); plain HTTP does without"
    )
    command.add_argument(
        "--device", metavar="DEVICE", default="", help="the name of the device that may join (default: any)"
    )
    command.add_argument(
        "--valid-for",
        metavar="TIME",
        default="24h",
        help="for how long the token is good (default: %(default)s)",
    )
    shared.add_output(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print it."""
    from fairlead.device.membership import parse_url
    from fairlead.invite import mint_invite

    life = _life(options.valid_for)
    if options.local:
        return local.run_invite(options, life)
    expires = time.time() + life
    session = _session(options)
    url = parse_url(session.url) + "/"
    fingerprint = session.fingerprint
    try:
        token = mint_invite(session.key, expires, options.device or session.device)
    except ValueError as error:
        from fairlead.errors import SettingsError

        raise SettingsError(f"--device: {error}", "use lower-case letters, digits and hyphens") from None
    print_invite(options, url, token, fingerprint, expires)
    return 0


def _session(options: argparse.Namespace) -> InvitedSession:
    """Return what is invited to: an augmentation of a cluster, or what the options say."""
    from fairlead.errors import SettingsError

    if options.name:
        if options.url or options.key_file or options.cert:
            raise SettingsError(
                f"{options.name} has its own address, key and certificate",
                "leave out --url, --key-file and --cert, or the name",
            )
        return read_session(options)
    if not options.url or not options.key_file:
        raise SettingsError(
            "neither an augmentation nor a store is named", "name one, or add --url and --key-file"
        )
    from fairlead.device.membership import parse_url

    key, url = _key(options.key_file), parse_url(options.url) + "/"
    return InvitedSession(options.url, key, _fingerprint(options.cert, url), "")


def print_invite(options: argparse.Namespace, url: str, token: str, fingerprint: str, expires: float) -> None:
    """Print an invite: for people, the command that the device runs."""
    if options.output != "table":
        show(
            {"url": url, "token": token, "fingerprint": fingerprint or None, "expires": expires},
            options.output,
        )
        return
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(expires))
    print(f"url:         {url}\ntoken:       {token}")
    if fingerprint:
        print(f"fingerprint: {fingerprint}")
    pin = f" --fingerprint {fingerprint}" if fingerprint else ""
    print(
        f"Good for one join until {until}. On the device:\n  fairlead device join {url} --token {token}{pin}"
    )


def _life(text: str) -> "Seconds":
    from fairlead.errors import SettingsError
    from fairlead.units import parse_duration

    try:
        life = parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"--valid-for: {error}") from None
    if not 1 <= life <= 30 * 86400:
        raise SettingsError(f"--valid-for {text}: out of range", "choose from 1s to 720h")
    return life


def _key(path: str) -> bytes:
    from fairlead.errors import SettingsError
    from fairlead.invite import parse_key

    try:
        with open(path, "rb") as file:
            return parse_key(file.read(4096))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(
            f"--key-file {path}: {why}", "`openssl rand -hex 32 > FILE` makes a key; the store needs the same"
        ) from None


def _fingerprint(path: "str | None", url: str) -> str:
    """Return the fingerprint of a certificate file; empty without one."""
    import hashlib
    import ssl

    from fairlead.errors import SettingsError

    if path is None:
        if url.startswith("https:"):
            raise SettingsError("the address is one of TLS, and no certificate is named", "add --cert FILE")
        return ""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(1 << 20)
        end = "-----END CERTIFICATE-----"
        der = ssl.PEM_cert_to_DER_cert(
            text[text.index("-----BEGIN CERTIFICATE-----") : text.index(end)] + end
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no certificate in PEM"
        raise SettingsError(f"--cert {path}: {why}") from None
    return f"sha256:{hashlib.sha256(der).hexdigest()}"
