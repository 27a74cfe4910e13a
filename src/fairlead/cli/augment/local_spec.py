"""What `fairlead augment create --local` asks for, checked before anything is made."""

import argparse
import os
from typing import TYPE_CHECKING

from fairlead.units import format_bytes

if TYPE_CHECKING:
    from fairlead.augment.place import LocalSession
    from fairlead.augmentation import AugmentationSpec
    from fairlead.units import Bytes


def parse_size(name: str, text: str) -> "Bytes":
    """Return a size that can be stored."""
    from fairlead.errors import SettingsError
    from fairlead.units import Bytes, parse_quantity

    try:
        size = parse_quantity(text)
    except ValueError as error:
        raise SettingsError(f"{name}: {error}") from None
    if size <= 0:
        raise SettingsError(f"{name} {text}: nothing could be stored", "write it like 10Gi")
    return Bytes(size)


def wanted_spec(options: argparse.Namespace) -> "AugmentationSpec":
    """Return what the options ask for."""
    from fairlead.augmentation import AugmentationSpec, StorageRequest
    from fairlead.device.application import command_digest, split_command
    from fairlead.device.membership import DEVICE_NAME
    from fairlead.errors import SettingsError

    if options.image:
        raise SettingsError("--image is for clusters", "with --local the application is a --command")
    if not DEVICE_NAME.fullmatch(options.device):
        raise SettingsError(
            f"--device {options.device[:80]!r} is not a name", "use lower-case letters, digits and hyphens"
        )
    size = parse_size("--size", options.size)
    fast = parse_size("--fast", options.fast) if options.fast else None
    if (fast is None) != (options.slow is None):
        raise SettingsError("two tiers need both --fast SIZE and --slow DIR", "name both, or none")
    if fast is not None and fast > size:
        raise SettingsError(f"--fast {options.fast} is more than --size {options.size}", "choose less")
    words = split_command(options.program) if options.program else []
    if words:
        _check_command(words)
    if options.gpu_mem and not words:
        raise SettingsError("--gpu-mem needs an application", "add --command")
    memory = parse_size("--gpu-mem", options.gpu_mem) if options.gpu_mem else None
    env = dict(map(_pair, options.env))
    digest = options.digest or (command_digest(words) if words else None)
    storage = StorageRequest(size, fast)
    return AugmentationSpec(options.name, options.device, "", tuple(words), storage, memory, digest, env)


def _check_command(words: "list[str]") -> None:
    from fairlead.errors import SettingsError
    from fairlead.local.runner.command import CommandFailure, find_command

    found = find_command(words, os.environ)
    if isinstance(found, CommandFailure):
        raise SettingsError(f"--command: {found.reason}")


def _pair(text: str) -> "tuple[str, str]":
    from fairlead.errors import SettingsError

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise SettingsError(f"--env {text}: not NAME=VALUE", "write it like MODE=fast")
    return name, value


def slow_folder(options: argparse.Namespace) -> str:
    """Return the folder of the slow tier, which is made; empty: there is one tier."""
    from importlib.util import find_spec

    from fairlead.errors import SessionError, SettingsError

    if options.slow is None:
        return ""
    if find_spec("fairlead.cli.serve.tier") is None:
        raise SettingsError("two tiers are not part of this version", "leave --fast and --slow out")
    folder: str = os.path.abspath(options.slow)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise SessionError(f"--slow {options.slow}: {error.strerror or error}", "name a folder") from None
    return folder


def check_same(session: "LocalSession", spec: "AugmentationSpec", slow: str) -> None:
    """Refuse to change a session by making it again."""
    from fairlead.errors import SessionError

    now = session.spec
    if spec.storage.size != now.storage.size:
        raise SessionError(
            f"session {now.name} exists with {format_bytes(now.storage.size)}",
            f"`fairlead augment resize {now.name} SIZE --local` changes that",
        )
    same = (spec.device, spec.command, spec.storage, spec.accelerator_memory, slow)
    if same != (now.device, now.command, now.storage, now.accelerator_memory, session.slow):
        raise SessionError(
            f"session {now.name} exists, and is another one", "delete it first: its data stays"
        )
