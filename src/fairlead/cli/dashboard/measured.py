"""Where a dashboard of a cluster reads measured use."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead.serve.dashboard.cluster.source import ClusterSettings

AGENTS = "fairlead-system"


def add_measured(command: argparse.ArgumentParser) -> None:
    """Add the options of measured use."""
    group = command.add_argument_group("measured use, of a cluster")
    group.add_argument(
        "--agents",
        metavar="NAMESPACE",
        default=AGENTS,
        help="the namespace of the agents, whose pages are read without a Prometheus (default: %(default)s)",
    )
    group.add_argument(
        "--prometheus", metavar="URL", default="", help="read measured use from this Prometheus instead"
    )
    group.add_argument(
        "--prometheus-token-file", metavar="FILE", default="", help="a bearer token for Prometheus or agents"
    )
    group.add_argument(
        "--prometheus-ca-file",
        metavar="FILE",
        default="",
        help="certificate authorities of Prometheus or of the agents",
    )


def cluster_settings(options: argparse.Namespace) -> "ClusterSettings":
    """Return the settings of the options."""
    from fairlead.serve.dashboard.cluster.source import ClusterSettings
    from fairlead.usage.source import UsageSettings, check_settings

    usage = UsageSettings(
        url=options.prometheus, token_file=options.prometheus_token_file, ca_file=options.prometheus_ca_file
    )
    check_settings(usage)
    return ClusterSettings(usage, options.agents)
