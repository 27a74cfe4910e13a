"""`fairlead serve operator`: make what our custom resources ask for."""

import argparse
import os
import sys
import uuid
from typing import Any

from fairlead.cli.serve import leader_options
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError
from fairlead.settings import parse_address, tls_files

LISTEN = "127.0.0.1:19813"


def add(programs: Any) -> None:
    """Add the program to the command line."""
    command = programs.add_parser(
        "operator",
        help="make the objects that fairlead's custom resources ask for, and keep them so",
        description="Reconcile fairlead's custom resources: create, change and delete the objects that each "
        "of them needs, and write its status; serve /metrics, /healthz and /readyz.",
    )
    shared.add_listen(command, LISTEN)
    shared.add_tls(command)
    command.add_argument(
        "--in-flight", metavar="N", type=int, default=32, help="concurrent requests (default: %(default)s)"
    )
    command.add_argument(
        "--pipeline-image",
        metavar="IMAGE",
        default="",
        help="the image of pipelines that name none (default: localhost/fairlead-pipeline of this version)",
    )
    command.add_argument(
        "--store-image",
        metavar="IMAGE",
        default="",
        help="the image of stores of augmentations that name none (default: localhost/fairlead-store of this "
        "version)",
    )
    leader_options.add_lease_namespace(command)
    leader_options.add_times(command)
    shared.add_cluster(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the operator."""
    shared.check_python("operator")
    from fairlead.cluster.config import kubeconfig
    from fairlead.serve.operator import program
    from fairlead.settings.leader import OPERATOR_LEASE
    from fairlead.settings.operator import OperatorSettings

    if not 1 <= options.in_flight <= 1000:
        raise SettingsError(f"--in-flight {options.in_flight}: out of range", "choose from 1 to 1000")
    settings = OperatorSettings(
        me=f"{os.uname().nodename}-{uuid.uuid4().hex[:8]}",
        listen=parse_address(options.listen),
        tls=tls_files(options.tls_cert, options.tls_key),
        in_flight=options.in_flight,
        pipeline_image=options.pipeline_image,
        store_image=options.store_image,
        lease=leader_options.leader_election(options, OPERATOR_LEASE, "operator"),
    )
    program.check()
    program.run(kubeconfig.load(options.kubeconfig, options.context), settings, _log)
    return 0


def _log(line: str) -> None:
    print(f"fairlead operator: {line}", file=sys.stderr, flush=True)
