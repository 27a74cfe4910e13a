"""`fairlead serve extender`: filter and score nodes for a stock kube-scheduler, by their accelerators."""

import argparse
import sys
from typing import Any

from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError
from fairlead.settings import parse_address, tls_files
from fairlead.settings.extender import ExtenderSettings

LISTEN = "127.0.0.1:19811"


def add(programs: Any) -> None:
    """Add the program to the command line."""
    command = programs.add_parser(
        "extender",
        help="filter and score nodes for a stock kube-scheduler, by their accelerators",
        description="Answer a stock kube-scheduler's /filter and /prioritize, down to the accelerator; serve "
        "/metrics, /healthz and /readyz. It binds no pods.",
    )
    command.add_argument("--policy", default="fairlead", help="how nodes are scored (default: %(default)s)")
    shared.add_listen(command, LISTEN)
    shared.add_tls(command)
    command.add_argument(
        "--client-ca",
        metavar="FILE",
        default="",
        help="require a client certificate of this authority (PEM); probes are always answered",
    )
    command.add_argument(
        "--print-config",
        metavar="URL",
        help="print the KubeSchedulerConfiguration for an extender at this address, and exit",
    )
    shared.add_cluster(command)
    shared.add_catalog(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the extender, or print the configuration of the kube-scheduler that calls it."""
    if options.print_config is not None:
        from fairlead.serve.extender.config import configuration

        print(configuration(options.print_config), end="")
        return 0
    shared.check_python("extender")
    from fairlead.cluster.config import kubeconfig
    from fairlead.schedule import policy_named
    from fairlead.serve.extender import program

    policy_named(options.policy)
    tls = tls_files(options.tls_cert, options.tls_key)
    if options.client_ca and tls is None:
        raise SettingsError("client-ca is set and tls-cert is not", "client certificates need TLS")
    settings = ExtenderSettings(parse_address(options.listen), options.policy, tls, options.client_ca)
    config = kubeconfig.load(options.kubeconfig, options.context)
    program.run(config, shared.catalog_of(options), settings, _log)
    return 0


def _log(line: str) -> None:
    print(f"fairlead extender: {line}", file=sys.stderr, flush=True)
