"""`fairlead serve dashboard`: the page of a cluster for its users, each with their own rights."""

import argparse
import sys
from typing import Any

from fairlead.cli.dashboard.allowed import add_allow, parse_actions
from fairlead.cli.dashboard.measured import add_measured, cluster_settings
from fairlead.cli.shell import options as shared
from fairlead.settings import parse_address, tls_files

LISTEN = "127.0.0.1:19820"


def add(programs: Any) -> None:
    """Add the program to the command line."""
    command = programs.add_parser(
        "dashboard",
        help="serve the page of a cluster to its users, each with their own rights",
        description="Serve the dashboard of a cluster: each request carries a token of the cluster, and "
        "shows what the API server says that its owner may list, nothing else. It is read-only unless "
        "--allow names actions, which are done with the person's own token. Serve /healthz and /readyz.",
    )
    shared.add_listen(command, LISTEN)
    command.add_argument(
        "--host",
        metavar="NAME",
        action="append",
        default=[],
        help="a further name by which browsers reach the page; other names are refused; may be repeated",
    )
    shared.add_tls(command)
    add_allow(command)
    add_measured(command)
    shared.add_cluster(command)
    shared.add_catalog(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the program."""
    shared.check_python("dashboard")
    from dataclasses import replace

    from fairlead.cluster.config import kubeconfig
    from fairlead.serve.dashboard.app import Dashboard
    from fairlead.serve.dashboard.cluster.source import ClusterSource
    from fairlead.serve.dashboard.cluster.viewers import ReviewedAccess
    from fairlead.serve.dashboard.program import ServeOptions
    from fairlead.serve.dashboard.program import run as serve

    actions = parse_actions(options.allow)
    where = ServeOptions(
        parse_address(options.listen), tuple(options.host), tls_files(options.tls_cert, options.tls_key)
    )
    config = kubeconfig.load(options.kubeconfig, options.context)
    settings = replace(cluster_settings(options), lease=options.agents, with_tokens=True)
    source = ClusterSource(config, shared.catalog_of(options), settings)
    access = ReviewedAccess(lambda: source.client, source.namespaces, actions)
    if not where.listen.loopback and where.tls is None:
        _log("tokens travel without TLS: set --tls-cert and --tls-key, or listen on 127.0.0.1")
    serve(lambda: Dashboard(source, access), where, lambda address: _log(f"listening on {address}"))
    return 0


def _log(line: str) -> None:
    print(f"fairlead dashboard: {line}", file=sys.stderr, flush=True)
