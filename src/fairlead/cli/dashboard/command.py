"""`fairlead dashboard`: serve the page for one person, and print its address with the token."""

import argparse
import os
import shlex
import sys
import time
from typing import TYPE_CHECKING, Any

from fairlead.cli.dashboard.allowed import ACTIONS, add_allow, parse_actions
from fairlead.cli.dashboard.measured import add_measured, cluster_settings
from fairlead.cli.dashboard.tokens import new_token, read_token
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError
from fairlead.settings import parse_address, tls_files

if TYPE_CHECKING:
    from fairlead.dashboard.source import DashboardSource

LISTEN = "127.0.0.1:19820"


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "dashboard",
        help="serve a page with devices, shares, the queue and why each workload waits",
        description="Serve the dashboard for one person, and print its address with a token: of this "
        "machine, of the cluster of a kubeconfig (--kubeconfig or --context), or of a recorded snapshot "
        "(--snapshot). It is read-only, and only this machine can connect. It runs until it is interrupted.",
    )
    command.add_argument(
        "--snapshot",
        metavar="FILE",
        help="show a cluster that `fairlead snapshot` or `fairlead debug-dump` wrote, or manifests, or nodes "
        "in the short form",
    )
    command.add_argument(
        "--model",
        metavar="FILE",
        action="append",
        default=[],
        help="an ONNX or TFLite file whose latency is predicted on every device of a machine or a snapshot; "
        "may be repeated",
    )
    command.add_argument(
        "--simulation",
        metavar="FILE",
        action="append",
        default=[],
        help="also show the runs that `fairlead simulate -o json` wrote; may be repeated",
    )
    shared.add_cluster(command)
    shared.add_catalog(command)
    add_allow(command)
    add_measured(command)
    add_serving(command)
    command.set_defaults(run=run)


def add_serving(command: argparse.ArgumentParser) -> None:
    """Add the options of the server for one person."""
    shared.add_listen(command, LISTEN)
    command.add_argument(
        "--host",
        metavar="NAME",
        action="append",
        default=[],
        help="a further name by which browsers reach the page; other names are refused; may be repeated",
    )
    shared.add_tls(command)
    command.add_argument(
        "--token-file", metavar="FILE", help="read the token from this file (default: a new one each time)"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.dashboard.viewer import Viewer
    from fairlead.serve.dashboard.access import OneToken
    from fairlead.serve.dashboard.app import Dashboard
    from fairlead.serve.dashboard.program import ServeOptions
    from fairlead.serve.dashboard.program import run as serve

    token = read_token(options.token_file) if options.token_file else new_token()
    tls = tls_files(options.tls_cert, options.tls_key)
    where = ServeOptions(parse_address(options.listen), tuple(options.host), tls)
    access = OneToken(token, Viewer(_user(), actions=parse_actions(options.allow, _known_actions(options))))

    def on_start(address: str) -> None:
        shown = address if options.token_file else f"{address}#token={token}"
        print(f"fairlead dashboard: {shown}", flush=True)

    source = source_of(options)
    _show_models(source, options)
    if options.simulation:
        from fairlead.dashboard.simulations import read_simulations

        source.show_simulations(read_simulations(options.simulation))
    print(f"fairlead dashboard: shows {source.info.kind} {source.info.name}", file=sys.stderr, flush=True)
    serve(lambda: Dashboard(source, access), where, on_start)
    return 0


def source_of(options: argparse.Namespace) -> "DashboardSource":
    """Return the source that the options name: a snapshot, a cluster, or this machine."""
    if options.snapshot is not None:
        if options.kubeconfig or options.context:
            raise SettingsError("--snapshot and a cluster are named", "leave one of them out")
        from fairlead.cache.clusterfile import read_cluster
        from fairlead.dashboard.sources.snapshot import SnapshotSource

        catalog = shared.catalog_of(options)
        snapshot = read_cluster([options.snapshot], catalog)
        return SnapshotSource(snapshot, shlex.quote(options.snapshot), catalog, time.time)
    if options.kubeconfig or options.context:
        return _cluster(options)
    from fairlead.cli.dashboard.sessions import open_sessions
    from fairlead.local.dashboard.source import MachineSource

    return MachineSource(os.environ, sessions=open_sessions(_user()) or tuple)


def _known_actions(options: argparse.Namespace) -> tuple[str, ...]:
    """Return what can be allowed: a snapshot cannot change, and a machine has jobs alone."""
    if options.snapshot is not None:
        return ()
    return ACTIONS if options.kubeconfig or options.context else ("cancel",)


def _cluster(options: argparse.Namespace) -> "DashboardSource":
    shared.check_python("dashboard")
    from fairlead.cluster.config import kubeconfig
    from fairlead.serve.dashboard.cluster.source import ClusterSource

    config = kubeconfig.load(options.kubeconfig, options.context)
    return ClusterSource(config, shared.catalog_of(options), cluster_settings(options))


def _show_models(source: "DashboardSource", options: argparse.Namespace) -> None:
    """Show the models that the options name; a cluster has those of its profiles."""
    if not options.model:
        return
    if options.kubeconfig or options.context:
        raise SettingsError("--model and a cluster are named", "its models are those of its ModelProfiles")
    from fairlead.calibrate.profile import default_folder, load_all
    from fairlead.dashboard.predictions import read_models
    from fairlead.estimate.knowledge import Knowledge

    catalog = shared.catalog_of(options)
    known = load_all(default_folder(os.environ))
    knowledge = Knowledge.of(known.calibrations, catalog, known.seen)
    source.show_models(read_models(options.model), catalog, knowledge)


def _user() -> str:
    from fairlead.ledger.users import user_name

    return user_name(os.geteuid())
