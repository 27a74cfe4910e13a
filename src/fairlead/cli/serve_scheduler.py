"""`fairlead serve scheduler`: place the pods of a live cluster."""

import argparse
import os
import sys
import uuid
from typing import Any

from fairlead.cli import options as shared
from fairlead.errors import SettingsError
from fairlead.settings import parse_address

LISTEN = "127.0.0.1:19810"


def add(programs: Any) -> None:
    """Add the program to the command line."""
    command = programs.add_parser(
        "scheduler",
        help="place the pods of a cluster that ask for it, down to the accelerator",
        description="Place pods with schedulerName: fairlead; serve /metrics, /explain, /healthz, /readyz.",
    )
    command.add_argument(
        "--name", default="fairlead", help="place pods with this schedulerName (default: %(default)s)"
    )
    command.add_argument("--policy", default="fairlead", help="how places are chosen (default: %(default)s)")
    shared.add_page(command, LISTEN)
    command.add_argument(
        "--in-flight", metavar="N", type=int, default=32, help="requests at once (default: %(default)s)"
    )
    command.add_argument(
        "--no-own-claims", action="store_true", help="hand over accelerators by annotation alone"
    )
    command.add_argument(
        "--lease-namespace", metavar="NS", default="kube-system", help="of the Lease (default: %(default)s)"
    )
    shared.add_cluster(command)
    shared.add_catalog(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the scheduler."""
    from fairlead.cluster import kubeconfig  # keeps --help fast
    from fairlead.schedule import policy_named
    from fairlead.serve.scheduler import program
    from fairlead.serve.scheduler.lead import Terms
    from fairlead.serve.scheduler.loop import SchedulerSettings

    if not 1 <= options.in_flight <= 1000:
        raise SettingsError(f"in-flight: {options.in_flight} is out of range", "choose from 1 to 1000")
    policy_named(options.policy)
    settings = SchedulerSettings(
        me=f"{os.uname().nodename}-{uuid.uuid4().hex[:8]}",
        name=options.name,
        policy=options.policy,
        in_flight=options.in_flight,
        own_claims=not options.no_own_claims,
        terms=Terms(options.lease_namespace),
    )
    config = kubeconfig.load(options.kubeconfig, options.context)
    program.run(config, shared.catalog_of(options), settings, parse_address(options.listen), _say)
    return 0


def _say(line: str) -> None:
    print(f"fairlead scheduler: {line}", file=sys.stderr, flush=True)
