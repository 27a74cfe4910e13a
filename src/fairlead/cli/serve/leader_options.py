"""The options of leader election, which programs with several replicas share."""

import argparse
from itertools import pairwise
from typing import TYPE_CHECKING

from fairlead.errors import SettingsError
from fairlead.units import parse_duration

if TYPE_CHECKING:
    from fairlead.settings.leader import LeaderElectionConfig

_TIMES = (
    ("lease-duration", "15s", "another replica takes over if the leader does not renew for this long"),
    ("renew-deadline", "10s", "a leader that cannot renew for this long stops deciding"),
    ("retry-period", "2s", "the time between two attempts to acquire or renew the Lease"),
)


def add_lease_namespace(command: argparse.ArgumentParser) -> None:
    """Add the option for the namespace of the Lease."""
    command.add_argument(
        "--lease-namespace",
        metavar="NS",
        default="kube-system",
        help="the namespace of the Lease (default: %(default)s)",
    )


def add_times(command: argparse.ArgumentParser) -> None:
    """Add the options for the times of the Lease."""
    for name, default, text in _TIMES:
        command.add_argument(
            f"--leader-elect-{name}", metavar="TIME", default=default, help=f"{text} (default: %(default)s)"
        )


def leader_election(options: argparse.Namespace, lease: str, page: str) -> "LeaderElectionConfig":
    """Return the leader election settings; a leader must stop before another may begin."""
    from fairlead.settings.leader import LeaderElectionConfig

    names = [name for name, _, _ in _TIMES]
    duration, deadline, period = (
        positive_seconds(f"--leader-elect-{name}", getattr(options, f"leader_elect_{name.replace('-', '_')}"))
        for name in names
    )
    if not 1.0 <= duration <= 600.0:
        raise SettingsError(
            f"--leader-elect-lease-duration: {duration:g} s is out of range", "choose 1s to 10m"
        )
    for (longer, most), (shorter, least) in pairwise(zip(names, (duration, deadline, period), strict=True)):
        if least >= most:
            text = (
                f"--leader-elect-{shorter}: {least:g} s is not less than --leader-elect-{longer}, {most:g} s"
            )
            raise SettingsError(text, f"see: fairlead docs {page}")
    return LeaderElectionConfig(options.lease_namespace, lease, duration, deadline, period)


def positive_seconds(option: str, text: str) -> float:
    """Return a duration that an option states."""
    try:
        seconds = float(parse_duration(text))
    except ValueError:
        raise SettingsError(f"{option} {text}: not a duration", "write it like 2s") from None
    if seconds <= 0:
        raise SettingsError(f"{option} {text}: not a positive duration", "write it like 2s")
    return seconds
