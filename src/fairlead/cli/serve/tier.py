"""`fairlead serve tier`: moves files between a fast and a slow volume, where programs use them."""

import argparse
import sys
from typing import Any

from fairlead.cli.augment import tier as augment_tier
from fairlead.errors import SettingsError
from fairlead.units import fault, parse_duration


def add(programs: Any) -> None:
    """Add the program to the command line."""
    command = programs.add_parser(
        "tier",
        help="move files between a fast and a slow volume, by the accesses to them",
        description="Keep the files that are used on a fast volume, and the others on a slow one. Programs "
        "use the fast folder: a file on the slow volume is a link there. Accesses are recorded, and the "
        "policy is chosen by what would have saved the most time.",
    )
    command.add_argument("--fast", metavar="DIR", required=True, help="the folder that programs use")
    command.add_argument("--slow", metavar="DIR", required=True, help="the folder on the slow volume")
    command.add_argument(
        "--capacity", metavar="SIZE", required=True, help="what may be on the fast volume, such as 10Gi"
    )
    command.add_argument(
        "--policy",
        metavar="NAME",
        default="auto",
        help="none, lru, lru-ghost, s3-fifo, 2q, arc, or auto: the one that saves the most time (default)",
    )
    command.add_argument(
        "--trace",
        metavar="FILE",
        default="",
        help="count the accesses too that fairlead serve store --trace FILE reports",
    )
    command.add_argument(
        "--choose-every",
        metavar="TIME",
        default="10m",
        help="with auto: the time between two choices (default: %(default)s)",
    )
    augment_tier.add_speeds(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the program."""
    from fairlead.signals import stop_signals
    from fairlead.tiering.policies import POLICIES
    from fairlead.tiering.program.loop import serve
    from fairlead.tiering.program.settings import AUTO, TierSettings
    from fairlead.tiering.volumes.lease import ignore_lease_signals

    if options.policy not in (AUTO, *POLICIES):
        raise SettingsError(
            f"--policy {options.policy}: no such policy", f"known: {', '.join((AUTO, *POLICIES))}"
        )
    settings = TierSettings(
        options.fast,
        options.slow,
        augment_tier.capacity_of(options.capacity),
        options.policy,
        augment_tier.speeds_of(options),
        options.trace,
        _choose_every(options.choose_every),
    )
    ignore_lease_signals()
    with stop_signals() as stop:
        serve(settings, stop, _log)
    return 0


def _choose_every(text: str) -> float:
    try:
        seconds = float(parse_duration(text))
    except ValueError as error:
        raise SettingsError(f"--choose-every {text}: {fault(error)}", "write it like 10m") from None
    if seconds < 1:
        raise SettingsError(f"--choose-every {text}: less than a second", "write it like 10m")
    return seconds


def _log(line: str) -> None:
    print(f"fairlead tier: {line}", file=sys.stderr, flush=True)
