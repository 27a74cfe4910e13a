"""`fairlead serve admission`: a webhook that restricts the scheduler's account to its own pods."""

import argparse
import sys
from typing import Any

from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError
from fairlead.settings import parse_address, tls_files

LISTEN = "127.0.0.1:19812"


def add(programs: Any) -> None:
    """Add the program to the command line."""
    command = programs.add_parser(
        "admission",
        help="restrict the scheduler's account to its own pods, and to victims of lower priority",
        description="Answer an API server's AdmissionReviews of bindings and evictions at /review: the "
        "scheduler's account may bind only pods with its schedulerName, and evict only pods of lower "
        "priority than a pending one. Serve /healthz and /readyz.",
    )
    command.add_argument(
        "--account",
        metavar="NAMESPACE/NAME",
        default="kube-system/fairlead-scheduler",
        help="the scheduler's service account; every other is allowed (default: %(default)s)",
    )
    command.add_argument(
        "--name",
        metavar="NAME",
        default="fairlead",
        help="the schedulerName of its pods (default: %(default)s)",
    )
    command.add_argument(
        "--protect",
        metavar="NAMESPACE",
        action="append",
        default=[],
        help="a namespace whose pods are never evicted, as those of kube-system; may be repeated",
    )
    command.add_argument(
        "--guard",
        action="store_true",
        help="also allow to evict a pod of its own from an accelerator whose memory is nearly full",
    )
    shared.add_listen(command, LISTEN)
    shared.add_tls(command)
    shared.add_cluster(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the webhook."""
    shared.check_python("admission")
    from fairlead.cluster.config import kubeconfig
    from fairlead.serve.admission import program
    from fairlead.settings.admission import AdmissionSettings, Rules

    namespace, slash, name = options.account.partition("/")
    if not (namespace and slash and name):
        raise SettingsError(f"--account {options.account}: not a service account", "write NAMESPACE/NAME")
    tls = tls_files(options.tls_cert, options.tls_key)
    if tls is None:
        raise SettingsError("tls-cert and tls-key are not set", "API servers call webhooks over TLS only")
    account = f"system:serviceaccount:{namespace}:{name}"
    rules = Rules(account, options.name, ("kube-system", *options.protect), options.guard)
    settings = AdmissionSettings(parse_address(options.listen), tls, rules)
    program.run(kubeconfig.load(options.kubeconfig, options.context), settings, _log)
    return 0


def _log(line: str) -> None:
    print(f"fairlead admission: {line}", file=sys.stderr, flush=True)
