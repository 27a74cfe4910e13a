"""Where profiles are: a folder of this machine, or a cluster. What `profiles` and `calibrate` share."""

import argparse
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairlead.cli.output.progress import progress
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError

if TYPE_CHECKING:
    from fairlead.calibration import Calibration, ObservedUse, Setup
    from fairlead.cluster.client import Client
    from fairlead.modelprofiles.convert import ProfileSet
    from fairlead.modelprofiles.store import StoreCounts
    from fairlead.modelprofiles.types import ModelProfile


@dataclass(frozen=True, slots=True)
class SetupProfiles:
    """All that is known of one setup."""

    id: str
    setup: "Setup"
    host: str
    calibration: "Calibration | None" = None
    seen: "tuple[ObservedUse, ...]" = ()

    @property
    def made(self) -> str:
        """When something was last learnt."""
        return max(each.made for each in (self.calibration, *self.seen) if each)


def add_source(command: argparse.ArgumentParser) -> None:
    """Let the user choose between a folder and a cluster."""
    command.add_argument(
        "--folder", metavar="DIR", help="the folder of profiles (default: the profiles of this user)"
    )
    add_cluster(command, "look into the cluster instead of the folder")


def add_cluster(command: argparse.ArgumentParser, purpose: str) -> None:
    """Let the user turn to a cluster."""
    command.add_argument(
        "--cluster", action="store_true", help=f"{purpose}; said by --kubeconfig and --context as well"
    )
    shared.add_cluster(command)


def add_node(command: argparse.ArgumentParser) -> None:
    """Let the user say who signs what is stored."""
    command.add_argument(
        "--node", metavar="NAME", default="", help="who signs what is stored (default: $NODE_NAME, this host)"
    )


def in_cluster(options: argparse.Namespace) -> bool:
    """Say whether the user turns to a cluster."""
    return bool(options.cluster or options.kubeconfig or options.context)


def folder_of(options: argparse.Namespace) -> str:
    """Return the folder of profiles."""
    import os

    from fairlead.calibrate.profile import folder

    if options.folder and os.path.exists(options.folder) and not os.path.isdir(options.folder):
        raise SettingsError(f"--folder {options.folder}: not a folder", "name the folder that it is in")
    return str(options.folder or folder(os.environ))


def node_of(options: argparse.Namespace) -> str:
    """Return who signs what is stored."""
    import os

    return str(options.node or os.environ.get("NODE_NAME") or os.uname().nodename)


@asynccontextmanager
async def open_cluster(options: argparse.Namespace) -> AsyncIterator["Client"]:
    """Open the cluster that the options name."""
    from fairlead.cluster.client import Client
    from fairlead.cluster.config import kubeconfig

    async with Client.connect(kubeconfig.load(options.kubeconfig, options.context)) as client:
        yield client


def check_cluster(options: argparse.Namespace) -> None:
    """Raise where the cluster cannot keep profiles."""
    import asyncio

    from fairlead.modelprofiles import store as profiles

    async def inside() -> None:
        async with open_cluster(options) as client:
            await profiles.check_served(client)

    asyncio.run(inside())


def store_profiles(options: argparse.Namespace, objects: "Iterable[ModelProfile]") -> "StoreCounts":
    """Add profiles to what the cluster knows."""
    import asyncio
    from random import Random

    from fairlead.modelprofiles import store as profiles

    async def inside() -> "StoreCounts":
        async with open_cluster(options) as client:
            return await profiles.store(client, objects, Random())  # noqa: S311 - pauses, not secrets

    return asyncio.run(inside())


def load_entries(options: argparse.Namespace) -> tuple[list[SetupProfiles], tuple[str, ...]]:
    """Return all that the folder or the cluster knows, and a line for each thing that cannot be read."""
    if not in_cluster(options):
        from fairlead.calibrate.profile import load_all

        calibrations, seen, damaged = load_all(folder_of(options))
        return group_by_setup(calibrations, seen), damaged
    calibrations, seen, unread = fetch_profiles(options)
    return group_by_setup(calibrations, seen), unread


def fetch_profiles(options: argparse.Namespace) -> "ProfileSet":
    """Return all that the cluster knows."""
    import asyncio

    from fairlead.modelprofiles import store as profiles

    async def inside() -> "ProfileSet":
        async with open_cluster(options) as client:
            return await profiles.read_profiles(client)

    with progress("reading the cluster's profiles"):
        return asyncio.run(inside())


def group_by_setup(
    calibrations: "Iterable[Calibration]", seen: "Iterable[ObservedUse]"
) -> list[SetupProfiles]:
    """Put together what is of one setup."""
    from fairlead.calibration import joined, united

    found: dict[str, SetupProfiles] = {}
    for each in calibrations:
        entry = _entry(found, each)
        both = united(entry.calibration, each) if entry.calibration else each
        found[entry.id] = replace(entry, calibration=both)
    for one in seen:
        entry = _entry(found, one)
        models = {model.digest: model for model in entry.seen}
        models[one.digest] = joined(models[one.digest], one) if one.digest in models else one
        found[entry.id] = replace(entry, seen=tuple(models.values()))
    return sorted(found.values(), key=lambda entry: (entry.setup.name, entry.id))


def _entry(found: dict[str, SetupProfiles], each: "Calibration | ObservedUse") -> SetupProfiles:
    from fairlead.calibration import place

    setup = place(each.setup, each.host)
    return found.get(setup) or SetupProfiles(setup, each.setup, each.host)
