"""Which session the commands about jobs speak of, and as whom: a device, or the session's owner."""

import argparse
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairlead.cli.augment import cluster
from fairlead.cli.shell import resources
from fairlead.cli.shell.resources import ResourceAccess

if TYPE_CHECKING:
    from fairlead.device.place import DevicePlace
    from fairlead.submission.client import StoreDoor


@dataclass(frozen=True, slots=True)
class ChosenSession:
    """The session of a command."""

    door: "StoreDoor"
    place: "DevicePlace | None"
    """The device that speaks; None: the owner of the session."""


def add_session(command: argparse.ArgumentParser) -> None:
    """Add the options that choose a session."""
    command.add_argument(
        "--session",
        metavar="NAME",
        help="an augmentation (default: the session that a device of this machine has joined)",
    )
    command.add_argument("--local", action="store_true", help="with --session: one of this machine")
    command.add_argument("--device", metavar="NAME", help="which device, if several are joined here")
    resources.add_cluster(command)


def chosen_session(options: argparse.Namespace) -> ChosenSession:
    """Return the session that the options choose."""
    from fairlead.errors import SettingsError

    if options.session is None:
        if options.local:
            raise SettingsError("--local needs the name of a session", "add --session NAME")
        return _of_device(options)
    if options.device is not None:
        raise SettingsError("--session is its owner's, --device a device's", "leave one of them out")
    return ChosenSession(_local_door(options) if options.local else _cluster_door(options), None)


def _of_device(options: argparse.Namespace) -> ChosenSession:
    from fairlead.device.place import DevicePlace, device_names
    from fairlead.errors import JobError
    from fairlead.submission.doors import device_door

    if not device_names(os.environ):
        raise JobError(
            "no device is joined here, and no session is named",
            "`fairlead device join` joins one; the owner of a session adds --session NAME",
        )
    place = DevicePlace.joined(os.environ, options.device)
    return ChosenSession(device_door(place), place)


def _local_door(options: argparse.Namespace) -> "StoreDoor":
    from fairlead.augment.place import SessionPlace
    from fairlead.submission.doors import session_door

    place = SessionPlace.existing(os.environ, options.session)
    return session_door(place.read().url, place.folder, place.name)


def _cluster_door(options: argparse.Namespace) -> "StoreDoor":
    """Return the door of an augmentation: its address from its status, its token from its Secret."""
    from base64 import b64decode

    from fairlead.augmentobjects.credentials import TOKEN
    from fairlead.device.membership import parse_fingerprint, parse_url
    from fairlead.submission.client import StoreDoor
    from fairlead.submission.doors import FixedToken

    found, secret = stored_session(options, options.session)
    status = found["status"]
    token = b64decode(secret["data"][TOKEN]).decode().split()[0]
    fingerprint = parse_fingerprint(status["fingerprint"])
    return StoreDoor(parse_url(status["url"]), fingerprint, FixedToken(token), options.session)


def stored_session(options: argparse.Namespace, name: str) -> "tuple[dict[str, Any], dict[str, Any]]":
    """Return the status of an augmentation and its Secret; AugmentationError where it has no address yet."""
    from fairlead.errors import AugmentationError

    found, secret = resources.with_resource(options, cluster.AUGMENTATION, name, _read)
    if not secret:
        raise AugmentationError(
            f"augmentation {name} has no address yet: {cluster.summary(found)}",
            f"fairlead augment show {name} says how it is doing",
        )
    return found, secret


async def _read(access: ResourceAccess) -> "tuple[dict[str, Any], dict[str, Any]]":
    from fairlead.augmentobjects.names import credentials_name
    from fairlead.cluster.kinds import Kind

    found = await access.read()
    if not (found.get("status") or {}).get("url"):
        return found, {}
    secrets = Kind.of("", "v1", "secrets", namespaced=True, name="Secret").raw()
    secret = await access.client.get(secrets, credentials_name(access.name), access.namespace)
    return found, secret.document()
