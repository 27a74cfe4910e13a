"""Names that a shell completes: devices, policies, profiles, labs, jobs; fast to read, and never an error."""

import argparse
import os
from collections.abc import Callable, Iterable
from typing import Final

from fairlead.cli.shell.complete import NOTHING, CompletionKind, Completions, CompletionWord
from fairlead.errors import FairleadError

_FOLDERS: Final = ("DIR",)
_FILES: Final = ("FILE", "MODEL", "ARCHIVE", "COMMAND", "NAME|FILE")


def values(action: argparse.Action, parser: argparse.ArgumentParser) -> Completions:
    """Return the completions of an argument's value, by its destination or its metavar."""
    metavar = str(action.metavar)
    if metavar in _FILES:
        return Completions(CompletionKind.FILES)
    if metavar in _FOLDERS:
        return Completions(CompletionKind.FOLDERS)
    if action.dest == "sort_by":
        return _words(str(each).lower() for each in parser.get_default("columns") or ())
    names = _NAMES.get(action.dest if action.option_strings else metavar)
    if names is None or (action.dest == "name" and " lab" not in parser.prog):
        return NOTHING
    try:
        return _words(names())
    except (FairleadError, ImportError, OSError, ValueError):
        return NOTHING  # a shell shows no errors while a user types


def _words(names: Iterable[str]) -> Completions:
    return Completions(
        CompletionKind.WORDS, tuple(CompletionWord(name.replace(" ", "-")) for name in names if name)
    )


def _devices() -> list[str]:
    from fairlead.catalog.load import device_ids

    return device_ids()


def _devices_and_kinds() -> list[str]:
    return [*_devices(), *_kinds()]


def _kinds() -> Iterable[str]:
    from fairlead.catalog.device import KINDS

    return KINDS


def _policies() -> Iterable[str]:
    from fairlead.schedule.score.policies import policy_names

    return policy_names()


def _setups() -> list[str]:
    from fairlead.calibrate.profile import default_folder, load_all
    from fairlead.cli.model.profiles_cluster import group_by_setup

    profiles = load_all(default_folder(os.environ))
    return [entry.id for entry in group_by_setup(profiles.calibrations, profiles.seen)]


def _labs() -> list[str]:
    from fairlead.cli.lab.verb import home

    return [lab.name for lab in home().labs()]


def _programs() -> list[str]:
    from fairlead.cli.lab.verb import home

    return list(dict.fromkeys(program.name for lab in home().labs() for program in lab.programs))


def _interference() -> Iterable[str]:
    return ("none", "time-slicing", "mps")


def _queues() -> Iterable[str]:
    return ("fifo", "kubernetes", "largest", "shortest")


def _pack() -> Iterable[str]:
    from fairlead.zoo import PACK

    return PACK


def _jobs() -> list[str]:
    """Return the ids and names of jobs, the user's own first."""
    from fairlead.local.status_reader import open_reader

    status = open_reader(os.environ, machine=False).read()
    live = sorted(status.jobs, key=lambda job: (job.state.ended, job.uid != os.geteuid(), -job.number))
    return list(dict.fromkeys([*(job.id for job in live), *(job.name for job in live)]))


_NAMES: Final[dict[str, Callable[[], Iterable[str]]]] = {
    "DEVICE": _devices,
    "JOB": _jobs,
    "after": _jobs,
    "SETUP": _setups,
    "PROGRAM": _programs,
    "on": _devices_and_kinds,
    "policy": _policies,
    "kind": _kinds,
    "name": _labs,
    "interference": _interference,
    "queue": _queues,
    "models": _pack,
}
"""By the destination of an option, or by the metavar of an argument."""
