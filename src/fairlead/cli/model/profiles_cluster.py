"""Read and store profiles in a folder or a cluster; shared by `profiles`, `estimate` and `calibrate`."""

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
    """One setup with its profiles."""

    id: str
    setup: "Setup"
    host: str
    calibration: "Calibration | None" = None
    seen: "tuple[ObservedUse, ...]" = ()

    @property
    def made(self) -> str:
        """The time of the newest profile."""
        return max(each.made for each in (self.calibration, *self.seen) if each)


def add_source(command: argparse.ArgumentParser) -> None:
    """Add the options that choose between a folder and a cluster."""
    command.add_argument(
        "--folder", metavar="DIR", help="the folder of profiles (default: the profiles of this user)"
    )
    add_cluster(command, "use the profiles of the cluster, not of the folder")


def add_cluster(command: argparse.ArgumentParser, purpose: str) -> None:
    """Add the options that select a cluster."""
    command.add_argument(
        "--cluster", action="store_true", help=f"{purpose}; implied by --kubeconfig and --context"
    )
    shared.add_cluster(command)


def add_node(command: argparse.ArgumentParser) -> None:
    """Add the option for the node that stored profiles name as their source."""
    command.add_argument(
        "--node",
        metavar="NAME",
        default="",
        help="the node that stored profiles name as their source (default: $NODE_NAME, this host)",
    )


def in_cluster(options: argparse.Namespace) -> bool:
    """Return whether the options select a cluster."""
    return bool(options.cluster or options.kubeconfig or options.context)


def folder_of(options: argparse.Namespace) -> str:
    """Return the folder of profiles."""
    import os

    from fairlead.calibrate.profile import default_folder

    if options.folder and os.path.exists(options.folder) and not os.path.isdir(options.folder):
        raise SettingsError(f"--folder {options.folder}: not a folder", "name the folder that it is in")
    return str(options.folder or default_folder(os.environ))


def node_of(options: argparse.Namespace) -> str:
    """Return the node that stored profiles name as their source."""
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
    """Raise if the cluster cannot store profiles."""
    import asyncio

    from fairlead.modelprofiles import store as profiles

    async def inside() -> None:
        async with open_cluster(options) as client:
            await profiles.check_served(client)

    asyncio.run(inside())


def store_profiles(options: argparse.Namespace, objects: "Iterable[ModelProfile]") -> "StoreCounts":
    """Store profiles in the cluster, merged with those it has."""
    import asyncio
    from random import Random

    from fairlead.modelprofiles import store as profiles

    async def inside() -> "StoreCounts":
        async with open_cluster(options) as client:
            return await profiles.store(client, objects, Random())  # noqa: S311 - pauses, not secrets

    return asyncio.run(inside())


def load_entries(options: argparse.Namespace) -> tuple[list[SetupProfiles], tuple[str, ...]]:
    """Return the setups of the folder or the cluster, and a line for each profile that cannot be read."""
    if not in_cluster(options):
        from fairlead.calibrate.profile import load_all

        calibrations, seen, damaged = load_all(folder_of(options))
        return group_by_setup(calibrations, seen), damaged
    calibrations, seen, unread = fetch_profiles(options)
    return group_by_setup(calibrations, seen), unread


def fetch_profiles(options: argparse.Namespace) -> "ProfileSet":
    """Return the profiles of the cluster."""
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
    """Group calibrations and observed use by setup."""
    from fairlead.calibration import merge_calibrations, merge_observed

    setups: dict[str, SetupProfiles] = {}
    for calibration in calibrations:
        entry = _entry(setups, calibration)
        merged = merge_calibrations(entry.calibration, calibration) if entry.calibration else calibration
        setups[entry.id] = replace(entry, calibration=merged)
    for use in seen:
        entry = _entry(setups, use)
        models = {model.digest: model for model in entry.seen}
        models[use.digest] = merge_observed(models[use.digest], use) if use.digest in models else use
        setups[entry.id] = replace(entry, seen=tuple(models.values()))
    return sorted(setups.values(), key=lambda entry: (entry.setup.name, entry.id))


def _entry(setups: dict[str, SetupProfiles], profile: "Calibration | ObservedUse") -> SetupProfiles:
    from fairlead.calibration import setup_id

    setup = setup_id(profile.setup, profile.host)
    return setups.get(setup) or SetupProfiles(setup, profile.setup, profile.host)
